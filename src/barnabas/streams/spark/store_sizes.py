"""How large an application's stores are, in their changelogs and on this machine's disk: `barnabas streams state`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.streams.errors import ProcessorStateError
from barnabas.streams.spark.state_directory import Kept
from barnabas.streams.spark.task_measures import entries_of
from barnabas.streams.state.disk import bytes_on_disk, look_into

if TYPE_CHECKING:
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.streams.spark.query_plan import Plan


class StoreRow(NamedTuple):
    """A store of a task: what its changelog has, and what this machine keeps of it (None: nothing).

    `changes` are the offsets of the changelog, records that compaction has removed among them; `lag` is how many of
    them came after what is kept, and would be restored here. `bytes` are those of all stores of the task's directory.
    """

    task: str
    store: str
    changelog: str
    changes: int | None
    kept: int | None = None
    lag: int | None = None
    entries: int | None = None
    bytes: int | None = None


def store_rows(plan: Plan, tasks: Mapping[int, int], admin: AdminClient, folder: Path) -> list[StoreRow]:
    """Return all stores of an application, whose directory on this machine is `folder`.

    `tasks` says how many each sub-topology has. A directory that cannot be read counts as nothing.
    """
    wanted = [
        (f"{number}_{partition}", store, TopicPartition(topic, partition))
        for number, count in sorted(tasks.items())
        for store, topic in sorted(plan.subtopologies[number].store_to_changelog_topic.items())
        for partition in range(count)
    ]
    offsets = _offsets(admin, [place for _, _, place in wanted])
    kept = {task: _kept(folder, task) for task in sorted({task for task, _, _ in wanted})}
    rows = []
    for task, store, place in sorted(wanted):
        begin, end = offsets.get(place, (None, None))
        row = StoreRow(task, store, place.topic, None if begin is None or end is None else end - begin)
        found = kept[task]
        position = None if found is None else found.positions.get(place.topic)
        if found is not None and position is not None:
            lag = None if end is None else max(0, end - position)
            row = row._replace(kept=position, lag=lag, entries=entries_of(store, found.entries), bytes=found.bytes)
        rows.append(row)
    return rows


def _offsets(admin: AdminClient, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Return first offset and end of those changelogs that exist."""
    there = set(admin.list_topics())
    asked = [place for place in places if place.topic in there]
    if not asked:
        return {}
    begins, ends = (
        admin.list_offsets(dict.fromkeys(asked, int(spec)), isolation_level="read_committed")
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
    )
    return {place: (begins[place].offset, ends[place].offset) for place in asked}


class _KeptHere(NamedTuple):
    positions: dict[str, int]
    entries: Counter[str]
    bytes: int


def _kept(folder: Path, task: str) -> _KeptHere | None:
    """Return what is kept of a task, of several directories the one that is furthest."""
    found = []
    for directory in sorted(folder.glob(f"{task}*")):
        if directory.name != task and not directory.name.startswith(f"{task}."):
            continue
        try:
            content = look_into(directory)
        except ProcessorStateError:
            continue
        if content.metadata is not None:
            positions = Kept.decode(content.metadata).positions
            found.append(_KeptHere(positions, content.entries, bytes_on_disk(directory)))
    return max(found, key=lambda each: sum(each.positions.values()), default=None)
