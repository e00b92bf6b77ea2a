from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.support import Run

from fitzroy.base.errors import UsageError
from fitzroy.cli.argv import asks_for_json, spread
from fitzroy.cli.files import check_output, write_file, write_files


def test_writing_replaces_a_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out"]


def test_new_files_have_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_file(tmp_path / "out", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("failing", ["replace", "fchmod"])
def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(UsageError, match="No space left"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_links_and_devices_stay(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    write_file(Path(os.devnull), b"gone")
    assert not Path(os.devnull).is_file()


def test_outputs_are_refused_before_the_work(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b"x")
    (tmp_path / "link").symlink_to(source)
    for path, text in (
        (tmp_path, "directory"),
        (tmp_path / "no" / "out", "does not exist"),
        (source, "overwrite an input"),
        (tmp_path / "link", "overwrite an input"),
    ):
        with pytest.raises(UsageError, match=text):
            check_output(path, [source])
    check_output(tmp_path / "fresh", [source])


def test_directories_that_are_closed_for_writing_are_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path or mode != os.W_OK)
    (tmp_path / "sub").mkdir()
    with pytest.raises(UsageError, match="closed for writing"):
        check_output(tmp_path / "out")
    check_output(tmp_path / "sub" / "out")
    check_output(Path(os.devnull))


def test_several_files_are_written_or_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(UsageError, match="cannot be written"):
        write_files([(tmp_path / "a", b"1"), (tmp_path / "none" / "b", b"2")])
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"
    write_files([(tmp_path / "a", b"1"), (tmp_path / "b", b"2")])
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("given", "spread_out"),
    [
        ("m --bundle a b c -o x", "m --bundle a --bundle b --bundle c -o x"),
        ("--bundle a --bundle b", "--bundle a --bundle b"),
        ("--bundle a b -- m", "--bundle a --bundle b -- m"),
        ("m --outputs a b", "m --outputs a b"),
        ("m --bundle=a b", "m --bundle=a b"),
        ("m --bundle", "m --bundle"),
        ("m -- --bundle a b", "m -- --bundle a b"),
        ("m --out_dir a_b --num_segments=2 -- --c_d", "m --out-dir a_b --num-segments=2 -- --c_d"),
    ],
)
def test_several_values_after_one_option(given: str, spread_out: str) -> None:
    assert spread(given.split()) == spread_out.split()


@pytest.mark.parametrize("given", ["m --calibrate -o x", "m --data --json"])
def test_options_that_lack_their_values(given: str) -> None:
    with pytest.raises(UsageError, match="has no value"):
        spread(given.split())


def test_json_is_recognised_before_parsing() -> None:
    assert asks_for_json(["inspect", "x", "--json"])
    assert not asks_for_json(["inspect", "--", "--json"])


def test_a_failed_compile_writes_nothing(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    result = fitzroy("compile", digits, "-o", "d.pte", "--bundle", "missing.png")
    assert result.code == 2
    assert os.listdir(tmp_path) == []
