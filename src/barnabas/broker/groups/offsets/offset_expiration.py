"""Expires committed offsets, and removes groups without members and offsets (offsets.retention.minutes)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.coordinator.expiry_sweep import Sweep
from barnabas.broker.faults import run_all
from barnabas.broker.groups.classic_group import EMPTY, STABLE, ClassicGroup
from barnabas.broker.groups.group import Group
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.broker.groups.group_kinds import tombstones_of
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata
from barnabas.broker.groups.offsets.offset_manager import OffsetManager
from barnabas.broker.groups.offsets.offset_store import OffsetStore
from barnabas.broker.instant import Instant
from barnabas.errors import KafkaError

#: So many tombstones go into one batch.
_TOMBSTONES_PER_WRITE = 1000


class OffsetExpiration:
    """Sweeps over all groups, in the interval of offsets.retention.check.interval.ms."""

    __slots__ = ("_offset_manager", "_offsets", "_settings", "_store", "_warn", "sweep")

    def __init__(
        self,
        settings: GroupSettings,
        store: GroupStore,
        offsets: OffsetStore,
        offset_manager: OffsetManager,
        warn: Callable[[str], None],
    ):
        self._settings = settings
        self._store = store
        self._offsets = offsets
        self._offset_manager = offset_manager
        self._warn = warn
        self.sweep = Sweep(settings.offsets_retention_check_interval_ms, lambda: store.groups, self._visit)

    def _visit(self, group_ids: Sequence[str], at: Instant) -> None:
        run_all(partial(self._visit_group, group_id, at) for group_id in group_ids)

    def _visit_group(self, group_id: str, at: Instant) -> None:
        group = self._store.groups.get(group_id)
        if group is None:
            return
        try:
            self._clean(group, at)
        except KafkaError as error:
            self._warn(f"Offsets of group {group_id} could not be expired, the next sweep will: {error}")

    def _clean(self, group: Group, at: Instant) -> None:
        group_id = group.group_id
        expired = self._expired(group, at.now_ms)
        for start in range(0, len(expired), _TOMBSTONES_PER_WRITE):
            gone = expired[start : start + _TOMBSTONES_PER_WRITE]
            self._offset_manager.remove(group_id, gone, at)
            self._store.counts.offset_expiration += len(gone)
        in_use = self._offsets.of_group(group_id) or self._offsets.has_open_transactions(group_id)
        awaited = isinstance(group, ClassicGroup) and group.pending_members
        if group.is_empty and not in_use and not awaited:
            draft = Draft(tombstones_of(group))
            draft.afterwards(partial(self._store.remove, group_id))
            self._store.commit(group_id, draft, at)

    def _expired(self, group: Group, now_ms: int) -> list[tuple[str, int]]:
        since = _retention_starts(group)
        if since is None:
            return []
        retention_ms = self._settings.offsets_retention_ms
        offsets = self._offsets
        return [
            (topic, partition)
            for topic, partitions in offsets.of_group(group.group_id).items()
            if not group.is_subscribed_to(topic)
            for partition, offset in partitions.items()
            if offset.is_expired(now_ms, retention_ms, since(offset))
            and not offsets.has_pending(group.group_id, topic, partition)
        ]


def _retention_starts(group: Group) -> Callable[[OffsetAndMetadata], int] | None:
    # From when on the retention of an offset counts (KIP-211); None: nothing expires now.
    if not isinstance(group, ClassicGroup):
        return lambda offset: offset.commit_timestamp_ms
    empty_since_ms = group.state_timestamp_ms
    if group.protocol_type is not None and group.state == EMPTY and empty_since_ms != -1:
        return lambda offset: empty_since_ms
    simple = group.protocol_type is None
    knows_subscriptions = group.subscribed_topics is not None and group.state == STABLE
    if simple or group.state == EMPTY or (group.uses_consumer_protocol and knows_subscriptions):
        return lambda offset: offset.commit_timestamp_ms
    return None
