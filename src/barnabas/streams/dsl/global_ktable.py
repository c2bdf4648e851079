"""`GlobalKTable`: a table that every task has whole."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Generic[K, V]):
    """All of a topic as a table, in every task; streams join it by any key that they select."""

    def __init__(self, value_getter_supplier: Any, queryable_store_name: str | None) -> None:
        self.value_getter_supplier = value_getter_supplier
        self._queryable_store_name = queryable_store_name

    def queryable_store_name(self) -> str | None:
        """Return the name under which the store is queried; None when it was given none."""
        return self._queryable_store_name
