"""A group that the coordinator assigns to, as it will be once its records are in the log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.groups.group import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.broker.coordinator.partition_storage import Record
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.instant import Instant

G = TypeVar("G", bound=Group)


class ModernGroupDraft(Generic[G]):
    """Changes to a copy of the group, each with its record. `commit` writes them and puts the copy in its place."""

    __slots__ = ("_afterwards", "_copied", "_draft", "group")

    def __init__(self, group: G, before: Iterable[Record] = ()) -> None:
        """`before` has to be in the log first: the end of what had the group's id until now."""
        #: The group with all changes so far.
        self.group = group
        self._copied = False
        self._draft = Draft(before)
        self._afterwards: list[Callable[[], None]] = []

    def commit(self, store: GroupStore, at: Instant) -> None:
        """Write the records, all or none, then let requests see the group. Raises `KafkaError`."""
        if self._draft.records:
            self._draft.afterwards(partial(store.put, self.group))
        for action in self._afterwards:
            self._draft.afterwards(action)
        store.commit(self.group.group_id, self._draft, at)

    def afterwards(self, action: Callable[[], None]) -> None:
        """Do something, to timers for instance, once the records are written and the group is seen."""
        self._afterwards.append(action)

    def _changed(self) -> G:
        if not self._copied:
            self.group = self.group.copy()
            self._copied = True
        return self.group

    def _record(self, *written: Record) -> G:
        for record in written:
            self._draft.put(record)
        return self._changed()
