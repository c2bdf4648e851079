"""Prints records to standard output or to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from barnabas.streams.engine.operator_processor import OperatorProcessor
from barnabas.streams.engine.processors.operator import Operator
from barnabas.streams.errors import TopologyError

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record


class KStreamPrint(Operator):
    """Prints a line `[label]: text` for each record, to the file `path` or to standard output."""

    def __init__(self, label: str, mapper: Callable[[Any, Any], object] | None, path: str | None) -> None:
        super().__init__()
        self.label = label
        self.mapper = mapper
        self.path = path

    def __call__(self) -> KStreamPrintProcessor:
        """Return a new processor."""
        return KStreamPrintProcessor(self)


class KStreamPrintProcessor(OperatorProcessor):
    """See `KStreamPrint`. The file is open from `init` to `close`: topologies travel to Spark's tasks."""

    def __init__(self, printed: KStreamPrint) -> None:
        self._printed = printed
        self._file: IO[str] | None = None

    def init(self, context: Any) -> None:
        """Open the file. Raises `TopologyError` for one that cannot be written."""
        super().init(context)
        path = self._printed.path
        if path is None:
            return
        try:
            self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115  # open until `close`
        except OSError as problem:
            raise TopologyError(f"Unable to write stream to file at [{path}] {problem}") from problem

    def process(self, record: Record[Any, Any]) -> None:
        """Print the record."""
        mapper = self._printed.mapper
        text = f"{record.key}, {record.value}" if mapper is None else str(mapper(record.key, record.value))
        print(f"[{self._printed.label}]: {text}", file=self._file or sys.stdout)  # what the user asked for

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
