"""``debug`` on a tiny program made here."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.driver.edgetpu_programs import POP, SIZE, echo

from fitzroy.cli.debug import COMMANDS
from fitzroy.formats import darwinn

COUNTING = np.arange(SIZE, dtype=np.uint8)
Debug = Callable[..., list[str]]


@pytest.fixture
def debug(fitzroy: Run, tmp_path: Path) -> Debug:
    """Lines that commands print, without the commands."""
    (tmp_path / "echo.dwn").write_bytes(darwinn.write_package(echo()))
    (tmp_path / "stuck.dwn").write_bytes(darwinn.write_package(echo(POP)))
    COUNTING.tofile(tmp_path / "x.raw")

    def run(*commands: str) -> list[str]:
        options = [word for command in commands for word in ("-x", command)]
        result = fitzroy("debug", "echo.dwn", "-i", "x.raw", *options)
        assert (result.code, result.err) == (0, "")
        return [line for line in result.out.splitlines() if not line.startswith(">")]

    return run


class Terminal(io.StringIO):
    """Input that says it is a terminal."""

    def isatty(self) -> bool:
        return True


# --- going on and looking ------------------------------------------------------------------------


def test_going_on(debug: Debug) -> None:
    lines = debug("s", "step 2", "break 20", "c", "fence", "c")
    assert [line for line in lines if not line.startswith("  ")] == [
        "0:1  tile_fence tiles=all set=all idle=all signal",
        "0:12  descriptor: input, 256 bytes at 0x10000000000",
        "breakpoint 1: 0:23",
        "breakpoint 1",
        "0:23  infeed memory=activation destination=r0c0 row_words=64",
        "0:35  scalar_fence clear=all wait_tiles tiles=all idle=infeed+outfeed",
        "the program has ended",
    ]
    assert lines[-1] == "  256 bytes were sent"
    assert debug("phase")[0].startswith("0:2  scalar_fence")


def test_breakpoints(debug: Debug) -> None:
    assert debug("b ring_produce", "b 0:28", "breaks", "delete 2", "breaks", "c")[2:7] == [
        "1: ring_produce",
        "2: 0:28",
        "breakpoint 2 is gone",
        "1: ring_produce",
        "breakpoint 1",
    ]
    assert debug("breaks") == ["no breakpoints"]


def test_who_is_where(debug: Debug) -> None:
    lines = debug("b 23", "c", "where")
    assert lines[-1].split() == [
        *("ring_consume_a", "r0c0", "ring_consume_a", "0:19", "0/1", "0", "waits", "for", "data")
    ]
    assert debug("b 23", "c", "queues 0")[-1] == lines[-1]
    assert debug("b 23", "c", "queues 1")[-1] == "nothing is under way"
    assert debug("b 30", "c", "queues")[-1] == "nothing is under way"
    assert "outfeed" in debug("b 30", "c", "streams")[-3]
    assert "host queue activation  256 bytes" in debug("b 17", "c", "ring")


def test_listing(debug: Debug) -> None:
    lines = debug("b 28", "b 23", "c", "list")
    assert "=>    23  infeed memory=activation destination=r0c0 row_words=64" in lines
    assert " *    28  outfeed row_words=64 to_host" in lines
    assert "              wait: avdata_pop>=1+1*i@0" in lines
    assert debug("list 35 0")[0].split()[:2] == ["35", "scalar_fence"]


def test_flags_and_registers(debug: Debug) -> None:
    assert debug("flags") == ["all flags of all tiles are 0"]
    assert len(debug("flags 3")) == 1 + 19
    assert "avdata_pop           32" in debug("b 30", "c", "flags scalar")
    assert debug("b 35", "c", "flags scalar")[-1] == "done: " + ", ".join(map(str, range(16)))
    assert "s5        0x100      256" in debug("b 30", "c", "registers")
    assert debug("r") == ["no register is known"]


def test_memory(debug: Debug) -> None:
    def values(what: str) -> list[str]:
        lines = debug("b 27", "c", f"x {what}")[4:]
        return [item for line in lines for item in line.partition(":")[2].split() or line.split()]

    assert values("wide 0 0x800 1 uint8") == [str(n) for n in COUNTING]
    assert values("wide 0 2048 1 int8") == [str(n) for n in COUNTING.view(np.int8)]
    assert values("wide 0 0x800")[:2] == ["03020100", "07060504"]
    words = COUNTING.view("<i4")
    assert values("wide 0 0x800 1 int32") == [str(n) for n in words]
    assert values("wide 1 0x800") == ["-"] * 64
    assert values("narrow 0 0") == ["-"] * 16
    assert values("scaling 0 0") == ["-"] * 8
    assert values("scalar 4 3 float") == ["0"] * 3


def test_dumps(debug: Debug) -> None:
    assert debug("b 27", "c", "dump wide w.npy", "dump wide t.npz 0")[4:] == [
        *("wrote w.npy", "wrote w_written.npy", "wrote t.npz")
    ]
    words, written = np.load("w.npy"), np.load("w_written.npy")
    np.testing.assert_array_equal(words[0, 0x800].astype("<u4").view(np.uint8), COUNTING)
    assert int(written.sum()) == 64
    with np.load("t.npz") as archive:
        np.testing.assert_array_equal(archive["wide"], words[0])
        np.testing.assert_array_equal(archive["written"], written[0])


def test_help(debug: Debug) -> None:
    text = "\n".join(debug("help"))
    for command in COMMANDS:
        assert ", ".join(command.names) in text
    assert debug("help x")[0].startswith("x MEMORY [TILE] ADDRESS")


# --- where commands come from --------------------------------------------------------------------


def test_commands_of_a_file_and_a_pipe(
    debug: Debug, fitzroy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("c.txt").write_text("# two steps\nstep\n\nstep  # and no more\nquit\nfoo\n")
    result = fitzroy("debug", "echo.dwn", "-i", "x.raw", "--commands", "c.txt", "-x", "b 2")
    assert result.code == 0
    heads = [line for line in result.out.splitlines() if line.startswith(">")]
    assert heads == ["> b 2", "> step", "> step"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("step\nwhere\n"))
    result = fitzroy("debug", "echo.dwn", "-i", "x.raw")
    assert (result.code, result.out.count("0:1  tile_fence")) == (0, 2)


def test_the_keyboard(debug: Debug, fitzroy: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["", "s", "", "where", "", "oops", None, "c", EOFError])
    prompts = []

    def ask(lines: Iterator[object], prompt: str) -> str:
        prompts.append(prompt)
        line = next(lines)
        if line is None:
            raise KeyboardInterrupt
        if line is EOFError:
            raise EOFError
        return str(line)

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda prompt: ask(typed, prompt))
    result = fitzroy("debug", "echo.dwn", "-i", "x.raw")
    assert result.code == 0
    assert prompts == ["(fitzroy) "] * 9
    # An empty line steps again; it does not look again.
    assert result.out.count("0:1  ") == 1
    assert result.out.count("0:2  ") == 2
    assert "the program has ended" in result.out
    assert "there is no command 'oops'" in result.err
    refused = fitzroy("debug", "echo.dwn", "-i", "x.raw", "--json")
    assert refused.code == 2
    assert "--json needs commands" in refused.json["error"]["what"]


def test_json(debug: Debug, fitzroy: Run) -> None:
    script = ("b 27", "c", "where", "x wide 0 0x800 1 uint8", "x narrow 0 0 1", "list 27 0", "help")
    options = [word for command in script for word in ("-x", command)]
    document = fitzroy("debug", "echo.dwn", "-i", "x.raw", "--json", *options).json
    assert [item["command"] for item in document["commands"]] == list(script)
    added, went, where, wide, narrow, listing, _ = [item["reply"] for item in document["commands"]]
    assert added == {"number": 1, "place": "0:27"}
    assert (went["breakpoints"], went["chunk"], went["bundle"]) == ([1], 0, 27)
    assert where["waiting"] == []
    assert wide["elements"] == [COUNTING.tolist()]
    assert narrow["elements"] == [[None]]
    assert [line["bundle"] for line in listing] == [27]
    assert listing[0]["current"]


# --- faults --------------------------------------------------------------------------------------


def test_a_failure_can_be_looked_at(debug: Debug, fitzroy: Run) -> None:
    script = ("-x", "c", "-x", "where", "-x", "quit")
    result = fitzroy("debug", "stuck.dwn", "-i", "x.raw", *script)
    assert result.code == 8
    assert "error: deadlock\n  reason: the scalar core waits for tiles 0\n" in result.err
    assert "the program has failed: deadlock" in result.out
    assert "waits for avdata_pop >= 1, has 0" in result.out
    result = fitzroy("debug", "stuck.dwn", "-i", "x.raw", "--json", *script)
    assert result.code == 8
    failed, where = result.json["commands"]
    assert failed["error"]["kind"] == "SimulationError"
    assert [item["unit"] for item in where["reply"]["waiting"]] == [
        *("ring_consume_a", "dispatcher", "infeed", "outfeed")
    ]
    # Going on makes no sense then.
    assert fitzroy("debug", "stuck.dwn", "-i", "x.raw", "-x", "c", "-x", "c").code == 2


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("foo", "no command 'foo'"),
        ("help foo", "no command 'foo'"),
        ("step many", "'many' is not a number"),
        ("step 0", "at least one"),
        ("step 1 2", "used wrongly"),
        ("break", "used wrongly"),
        ("break nowhere", "no place"),
        ("break 1:1", "no chunk 1"),
        ("delete 1", "no breakpoint 1"),
        ("list 999", "no bundle 999"),
        ("flags 16", "no tile 16"),
        ("flags -1", "negative"),
        ("queues 16", "no tile 16"),
        ("x", "used wrongly"),
        ("x wide 0", "used wrongly"),
        ("x wide 0 0 1 2", "used wrongly"),
        ("x broad 0 0", "no memory 'broad'"),
        ("x wide 16 0", "no tile 16"),
        ("x wide 0 99999", "it has 2080"),
        ("x scalar 4090 16", "it has 4096"),
        ("dump broad x.npy", "no memory 'broad'"),
        ("dump wide x.bin", ".npy or .npz"),
        ("dump wide nowhere/x.npy", "does not exist"),
        ("dump wide echo.npy 16", "no tile 16"),
    ],
)
def test_mistakes(debug: Debug, fitzroy: Run, command: str, what: str) -> None:
    result = fitzroy("debug", "echo.dwn", "-i", "x.raw", "-x", command, "-x", "c")
    assert result.code == 2
    assert what in result.err
    # A script does not go on after a mistake.
    assert "has ended" not in result.out


def test_other_mistakes(debug: Debug, fitzroy: Run) -> None:
    for arguments, code, what in (
        (["-x", "s"], 2, "is missing"),
        (["-i", "x.raw", "--commands", "none"], 2, "none"),
        (["-i", "x.raw", "--package", 1], 2, "no package 1"),
    ):
        result = fitzroy("debug", "echo.dwn", *arguments)
        assert result.code == code
        assert what in result.err
    Path("c.bin").write_bytes(b"\xff\xff")
    result = fitzroy("debug", "echo.dwn", "-i", "x.raw", "--commands", "c.bin")
    assert result.code == 3
    assert "UTF-8" in result.err
