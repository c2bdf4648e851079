"""Which changes of a topology keep the state of an application, and which do not. No I/O.

Safe is what leaves each store with the changelog that holds its records: operators without state added, taken away or
changed, stores that are new or gone, other retention, grace, caching or place (disk, memory), sub-topologies with other
numbers, input topics added or taken away. Not safe is what would begin a store empty without a word, read bytes as what
they are not, take one operator's state for another's, or leave out records that lie in a repartition topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from barnabas.streams.errors import TopologyError
from barnabas.streams.spark.topology_shape import StoreShape, TopologyShape, is_generated, tasks_renumbered

#: The setting that names stores and repartition topics whose change is accepted.
ACCEPTED = "accepted.topology.changes"


class Change(NamedTuple):
    """A change of a store, topic or sub-topology of this name; `what` says what it means."""

    name: str
    is_safe: bool
    what: str


class Remains(NamedTuple):
    """What is on the cluster: how many offsets of repartition topics are not read yet, how many changelogs have.

    Both by topic, and only of those that the comparison may ask for.
    """

    waiting: Mapping[str, int]
    logged: Mapping[str, int]


class TopologyChangedError(TopologyError):
    """The topology has changed in a way that would lose or misread state; `changes` are the ones that would."""

    def __init__(self, application: str, changes: list[Change]) -> None:
        lines = [f"  {change.name}: {change.what}" for change in changes]
        super().__init__(
            f"{application} has state that this topology would lose or misread; nothing was changed:\n"
            + "\n".join(lines)
            + f"\nWhere that is meant, name it in the setting {ACCEPTED}; `barnabas streams reset` begins anew. "
            "See docs/guide/streams.md"
        )
        self.changes = changes


def compared(before: TopologyShape, after: TopologyShape, remains: Remains) -> list[Change]:
    """Return what has changed, by name."""
    found = [
        *_stores(before, after, remains),
        *_repartition(before, after, remains.waiting),
        *(Change(topic, True, "is read, too") for topic in after.sources if topic not in before.sources),
        *(Change(topic, True, "is not read any more") for topic in before.sources if topic not in after.sources),
        *(
            Change(f"sub-topology {number}", True, f"is sub-topology {now} now; its state goes with its changelogs")
            for number, now in tasks_renumbered(before, after).items()
        ),
    ]
    return sorted(found)


def refused(changes: list[Change], accepted: Collection[str]) -> list[Change]:
    """Return the changes that must not be."""
    return [change for change in changes if not change.is_safe and change.name not in accepted]


def _stores(before: TopologyShape, after: TopologyShape, remains: Remains) -> Iterator[Change]:
    for name, store in before.stores.items():
        if store.changelog not in before.sources and not remains.logged.get(store.changelog or ""):
            if name not in after.stores:
                yield Change(name, True, "is gone; nothing of it was kept in a changelog")
        elif name not in after.stores:
            yield _gone(name, store, before, after)
        elif problem := _misread(name, store, after.stores[name], after):
            yield Change(name, False, problem)
    for name, store in after.stores.items():
        if name in before.stores:
            continue
        left = remains.logged.get(store.changelog or "", 0)
        if left and store.changelog not in (*after.sources, *before.sources):
            yield Change(
                name,
                False,
                f"is new, but {store.changelog} has records of an earlier topology ({left} offsets): delete that "
                "topic, or give the store another name",
            )
        else:
            yield Change(name, True, "is new, and begins empty")


def _gone(name: str, store: StoreShape, before: TopologyShape, after: TopologyShape) -> Change:
    if (twin := _twin(store, before, after)) is None:
        return Change(name, True, f"is gone; its changelog {store.changelog} stays until it is deleted")
    how = "Kafka generates names by the order of operators; " if is_generated(name) else ""
    return Change(
        name,
        False,
        f"is gone, and {twin}, of the same kind and fed by the same topics, would begin empty: {how}name the store "
        f"{name} (store=, Materialized.as_, Grouped.as_), and its changelog {store.changelog} is its own again",
    )


def _twin(store: StoreShape, before: TopologyShape, after: TopologyShape) -> str | None:
    """Return a new store that looks like one that is gone."""
    alike = store.kind, store.operator, store.sources
    for name, other in after.stores.items():
        if name not in before.stores and (other.kind, other.operator, other.sources) == alike:
            return name
    return None


def _misread(name: str, old: StoreShape, new: StoreShape, after: TopologyShape) -> str:
    """Return what is wrong with a store that takes up the state of another topology's store; nothing if all is well."""
    if new.changelog is None:
        return f"has no changelog any more, and would begin empty: its state is in {old.changelog}"
    if new.changelog != old.changelog and new.changelog not in after.sources:
        return f"would begin empty: its changelog was {old.changelog}, and is {new.changelog} now"
    of = f"its changelog {old.changelog} holds "
    for what, was, now in (
        ("entries of a {} store", old.kind, new.kind),
        ("keys by {}", old.key, new.key),
        ("values by {}", old.value, new.value),
        # Joins keep records by their time: the size says only how long.
        ("windows of {} ms", *((None, None) if old.retains_duplicates else (old.window_size_ms, new.window_size_ms))),
        ("several values a key: {}", old.retains_duplicates, new.retains_duplicates),
    ):
        if was != now:
            return f"{of}{what.format(was)}, not {now}: give the store another name"
    if is_generated(name) and (old.operator, old.sources) != (new.operator, new.sources):
        return (
            f"its name is generated, and is another operator's now: {old.operator} of {', '.join(old.sources)} before, "
            f"{new.operator} of {', '.join(new.sources)} now; name the stores (store=, Materialized.as_)"
        )
    return ""


def _repartition(before: TopologyShape, after: TopologyShape, waiting: Mapping[str, int]) -> Iterator[Change]:
    drain = "run the topology before once more until it has read them"
    for topic, serdes in before.repartition.items():
        records = waiting.get(topic, 0)
        if topic not in after.repartition:
            what = f"is not read any more, and {records} offsets of it are not read yet: {drain}"
            yield Change(topic, not records, what if records else "is not read any more, and all of it was read")
        elif after.repartition[topic] != serdes:
            now = after.repartition[topic]
            what = f"holds {records} offsets that are not read yet, by {serdes}, not by {now}: {drain}"
            yield Change(topic, not records, what if records else f"is read by {now} now, and all before it was read")
    for topic in after.repartition:
        if topic not in before.repartition:
            yield Change(topic, True, "is a new repartition topic")
