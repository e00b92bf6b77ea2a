"""What is told of a compilation while it goes on: steps, their times, and what they made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fitzroy.base.errors import UsageError
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.compiler.passes.base import Stage


@dataclass
class Log:
    """Times the steps of a compilation, tells of them, and dumps what they made.

    Attributes:
        dump: folder for what steps make, or None.
        progress: called with the name of each step.
        stages: the steps so far.
    """

    dump: Path | None
    progress: Callable[[str], None]
    stages: list[Stage] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step."""
        self.progress(name)
        started = time.perf_counter()
        yield
        self.stages.append(Stage(name, time.perf_counter() - started, 0, 0))

    def observe(self, stage: Stage, graph: Graph) -> None:
        """Take down what a pass did."""
        self.stages.append(stage)
        self.progress(stage.name)
        self.write(f"{stage.name}.ir", lambda: print_graph(graph))

    def write(self, name: str, text: Callable[[], str | bytes]) -> None:
        """Dump what a step made, under a name that begins with the number of the step.

        Raises:
            UsageError: it cannot be written.
        """
        self.write_as(f"{len(self.stages):02}-{name}", text)

    def write_all(self, contents: Callable[[], Mapping[str, str | bytes]]) -> None:
        """Dump files under names of their own.

        Raises:
            UsageError: one cannot be written.
        """
        if self.dump is not None:
            for name, content in contents().items():
                self.write_as(name, partial(_itself, content))

    def write_as(self, name: str, text: Callable[[], str | bytes]) -> None:
        """Dump a file.

        Raises:
            UsageError: it cannot be written.
        """
        if self.dump is None:
            return
        path = self.dump / name
        try:
            self.dump.mkdir(parents=True, exist_ok=True)
            content = text()
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise UsageError(f"cannot write {path}", reason=error.strerror or str(error)) from None


def _itself(content: str | bytes) -> str | bytes:
    return content
