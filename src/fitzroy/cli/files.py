"""Reading what the user names and writing results, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fitzroy.base.errors import UsageError


def check_output(path: Path, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Refuse an output path early, before the work is done.

    Args:
        path: where a result should go.
        inputs: files that must not be overwritten.

    Raises:
        UsageError: the directory is missing or closed, or the path is a directory or one of the
            inputs.
    """
    if _is_directory(path):
        raise UsageError("a file is wanted for the output, this is a directory", where=str(path))
    if not _is_directory(path.parent):
        raise UsageError(
            "the directory of the output does not exist",
            where=str(path),
            hint=f"create it with: mkdir -p {path.parent}",
        )
    folder = Path(os.path.realpath(path)).parent
    if not _is_special(path) and not os.access(folder, os.W_OK):
        raise UsageError(
            "the output cannot be written",
            reason=f"the directory {folder} is closed for writing",
            where=str(path),
        )
    for other in inputs:
        with contextlib.suppress(OSError):
            if path.exists() and os.path.samefile(path, other):
                raise UsageError("the output would overwrite an input", where=str(path))


def check_page(path: Path) -> None:
    """Refuse a name of JSON for a report that is a page of HTML.

    Raises:
        UsageError: it is one.
    """
    if path.suffix == ".json":
        raise UsageError(
            "the report is an HTML file",
            where=str(path),
            hint="name it .html; --json prints the same figures as JSON",
        )


def with_suffix(path: str | os.PathLike[str], suffix: str) -> Path:
    """A path with another suffix.

    Raises:
        UsageError: it ends in no name, as ``.``, ``/`` and an empty one do.
    """
    found = Path(path)
    if not found.name:
        raise UsageError("a file is wanted, this has no name", where=str(found))
    return found.with_suffix(suffix)


def check_directory(path: Path) -> None:
    """Refuse a file where a directory is wanted; none need be there.

    Raises:
        UsageError: it is a file, or in a closed directory.
    """
    if not _is_directory(path) and path.exists():
        raise UsageError("a directory is wanted", where=str(path))


def _is_directory(path: Path) -> bool:
    """Whether there is a directory.

    Raises:
        UsageError: it is in a closed directory, or the name is too long.
    """
    try:
        # From Python 3.14 on, `Path.is_dir` says no where it could not look.
        return stat.S_ISDIR(path.stat().st_mode)
    except ValueError:
        return False
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return False
        # The directory is closed, or the name is longer than the system lets names be.
        raise _refused("the output cannot be written", path, error) from None


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Write a file by way of a temporary one next to it: readers see all of it or none.

    A device or a pipe is written to directly; a link keeps pointing to its file.

    Raises:
        UsageError: the file cannot be written; what was there stays.
    """
    try:
        if _is_special(path):
            with path.open("wb") as special:
                special.write(data)
            return
        _replace(Path(os.path.realpath(path)), data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _refused("the output cannot be written", path, error) from None


def _is_special(path: Path) -> bool:
    """Whether a device or a pipe is there; False if nothing is, or if nobody can know."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def write_files(files: Sequence[tuple[Path, bytes]]) -> None:
    """Write several files: if one cannot be written, none is.

    Raises:
        UsageError: a file cannot be written; what was there stays.
    """
    special = [(path, data) for path, data in files if _is_special(path)]
    with contextlib.ExitStack() as stack:
        drafts = []
        for path, data in files:
            if (path, data) in special:
                continue
            try:
                target = Path(os.path.realpath(path))
                _demand_replaceable(target)
                drafts.append((stack.enter_context(_draft(target, data)), target, path))
            except OSError as error:
                raise _refused("the output cannot be written", path, error) from None
        # What can still fail comes before the first file that stays.
        for path, data in special:
            write_file(path, data)
        for draft, target, path in drafts:
            try:
                os.replace(draft, target)
            except OSError as error:
                raise _refused("the output cannot be written", path, error) from None


def _demand_replaceable(path: Path) -> None:
    """Find out early what would keep a file from taking a name.

    Raises:
        OSError: the name is too long, or a directory has it.
    """
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


@contextlib.contextmanager
def directories(wanted: Sequence[Path]) -> Iterator[None]:
    """Make directories and their parents; those made go away again if a result cannot be written.

    Args:
        wanted: directories for results.

    Raises:
        UsageError: one cannot be made.
    """
    made: list[Path] = []
    try:
        for directory in wanted:
            for path in (*reversed(directory.parents), directory):
                if not os.path.exists(path):
                    _make(path)
                    made.append(path)
        yield
    except UsageError:
        for path in reversed(made):
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def _make(directory: Path) -> None:
    """Make a directory.

    Raises:
        UsageError: it cannot be made.
    """
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise _refused("the directory cannot be made", directory, error) from None


def _replace(path: Path, data: bytes | memoryview) -> None:
    with _draft(path, data) as draft:
        os.replace(draft, path)


@contextlib.contextmanager
def _draft(path: Path, data: bytes | memoryview) -> Iterator[str]:
    """A file beside another one with its permissions, which goes away unless it is renamed."""
    # Of a fixed length: the name of the file may be as long as names can be.
    descriptor, name = tempfile.mkstemp(prefix=".fitzroy.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            # mkstemp makes private files; a result has the permissions of any other file.
            os.fchmod(file.fileno(), _permissions(path))
        yield name
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _permissions(path: Path) -> int:
    with contextlib.suppress(OSError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _refused(what: str, path: str | os.PathLike[str], error: OSError) -> UsageError:
    return UsageError(what, reason=error.strerror or str(error), where=os.fspath(path))
