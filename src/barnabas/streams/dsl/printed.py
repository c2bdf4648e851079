"""`Printed`: where `KStream.print` shows records, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any, Generic, TypeVar

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.operator_names import validate
from barnabas.streams.errors import TopologyError
from barnabas.streams.topology.given_fields import check_field, check_fields

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Printed(Generic[K, V]):
    """How a stream is printed: to the file `path` or, without one, to standard output.

    A file is opened where a task begins, and appended to line by line, so that several tasks may print to one;
    Kafka opens it where the topology is built, and empties it. What a repeated batch prints stands there twice.
    """

    path: str | None = None
    label: str | None = None
    name: str | None = None
    mapper: Callable[[K, V], object] | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @staticmethod
    def to_file(path: str | PathLike[str]) -> Printed[Any, Any]:
        """Print to a file. Raises `TopologyError` for an empty path."""
        if path is None:
            raise TypeError("filePath can't be null")
        found = fspath(path) if isinstance(path, PathLike) else path
        check_field("path", found)
        if not found.strip():
            raise TopologyError("filePath can't be an empty string")
        return Printed(found)

    @staticmethod
    def to_sys_out() -> Printed[Any, Any]:
        """Print to standard output."""
        return Printed()

    def with_label(self, label: str) -> Printed[K, V]:
        """Begin each line with `[label]`, in place of the name of the step before."""
        if label is None:
            raise TypeError("label can't be null")
        return replace(self, label=label)

    def with_key_value_mapper(self, mapper: Callable[[K, V], object]) -> Printed[K, V]:
        """Show what a function of key and value returns, in place of `key, value`."""
        return replace(self, mapper=functions.checked(mapper, "key value", "print", "mapper can't be null"))

    def with_name(self, name: str) -> Printed[K, V]:
        """Name the step. Raises `TopologyError` for a name that no topic can have."""
        validate(name)
        return replace(self, name=name)
