"""Histories of clients, and what is wrong with them: Jepsen's queue workload for Kafka, and list-append as Elle has it.

A history is a list of `Transaction`s, in the order in which they began; one that is no transaction has one operation.
`check_queue` judges records that are sent to partitions and polled from them: the offsets say in which order they were
written. `check_list_append` judges lists that are appended to and read whole. Both find the order of versions, the
dependencies that follow from it (ww: overwrote, wr: read, rw: was overwritten), and cycles among them.

Sources: Kingsbury, Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020); Adya,
"Weak Consistency" (1999) for G0, G1a to G1c, G-single, G2; Jepsen's reports on Redpanda 21.10.1 and Bufstream 0.1 for
the anomalies of queues. Kafka writes records of a transaction before it commits, so ww cycles (G0) are allowed there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

from tests.support.dependency_cycles import Edges, cycles

Key = Hashable
Value = Hashable


class Outcome(Enum):
    """What its client was told of a transaction."""

    OK = "ok"
    FAILED = "failed: it has not happened"
    UNKNOWN = "unknown: it may have happened, or may still"


class Send(NamedTuple):
    """A record for a partition; its offset if the client was told."""

    key: Key
    value: Value
    offset: int | None = None


class Poll(NamedTuple):
    """What came of a partition: offsets and values. `moved`: the position was set anew before (assignment, seek)."""

    key: Key
    records: tuple[tuple[int, Value], ...]
    moved: bool = False


class Append(NamedTuple):
    """A value at the end of a list."""

    key: Key
    value: Value


class Read(NamedTuple):
    """A list as a whole."""

    key: Key
    values: tuple[Value, ...]


class Transaction(NamedTuple):
    """What one process did at once. `committing_at` is when it began to commit, None where it is no transaction."""

    process: Hashable
    operations: tuple[Any, ...]
    outcome: Outcome = Outcome.OK
    began_at: float = 0.0
    ended_at: float = 0.0
    committing_at: float | None = None


class Anomaly(NamedTuple):
    """Its name, as in the literature, and what shows it."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


class _Writers:
    """Who wrote a value; a value is written once."""

    def __init__(self, history: Sequence[Transaction], kind: type[Send] | type[Append]) -> None:
        self.of: dict[tuple[Key, Value], int] = {}
        self.last_of: dict[tuple[int, Key], Value] = {}
        for index, transaction in enumerate(history):
            for operation in transaction.operations:
                if isinstance(operation, kind):
                    assert (operation.key, operation.value) not in self.of, f"{operation} was written twice by clients"
                    self.of[(operation.key, operation.value)] = index
                    self.last_of[(index, operation.key)] = operation.value


# -- queues ------------------------------------------------------------------------------------------------------------


def check_queue(history: Sequence[Transaction], *, read_committed: bool = True) -> list[Anomaly]:
    """Return what is wrong; sends and polls of partitions.

    `lost-write`: acknowledged, and not read although later offsets were; `unseen`: acknowledged and not read by anyone
    (the last polls of a history reach the end); `duplicate`, `inconsistent-offset`; `aborted-read` (G1a),
    `precommitted-read`; `poll-skip` and `nonmonotonic-poll`, `int-` within one operation or transaction;
    `nonmonotonic-send`; `G0` (ww), `G1c` (ww and wr).
    """
    orders, found = _orders(history)
    writers = _Writers(history, Send)
    found += _lost(history, orders)
    if read_committed:
        found += _uncommitted_reads(history, writers)
    found += _positions(history, orders, writers if read_committed else None)
    found += _sends_in_order(history)
    edges: Edges = defaultdict(set)
    for key, order in orders.items():
        owners = [writers.of.get((key, order[offset])) for offset in sorted(order)]
        known = [owner for owner in owners if owner is not None]
        for first, second in pairwise(known):
            edges[(first, second)].add("ww")
    for index, poll in _operations(history, Poll):
        for _, value in poll.records:
            owner = writers.of.get((poll.key, value))
            if owner is not None:
                edges[(owner, index)].add("wr")
    return [*found, *_cyclic(edges)]


def _operations(history: Sequence[Transaction], kind: type) -> Iterator[tuple[int, Any]]:
    for index, transaction in enumerate(history):
        for operation in transaction.operations:
            if isinstance(operation, kind):
                yield index, operation


def _orders(history: Sequence[Transaction]) -> tuple[dict[Key, dict[int, Value]], list[Anomaly]]:
    """Return the value at each offset, as far as anybody was told."""
    orders: dict[Key, dict[int, Value]] = defaultdict(dict)
    at: dict[tuple[Key, Value], set[int]] = defaultdict(set)
    found: list[Anomaly] = []

    def note(key: Key, offset: int, value: Value) -> None:
        known = orders[key].setdefault(offset, value)
        if known != value:
            found.append(Anomaly("inconsistent-offset", f"{key}: offset {offset} has {known!r} and {value!r}"))
        at[(key, value)].add(offset)

    for _, send in _operations(history, Send):
        if send.offset is not None:
            note(send.key, send.offset, send.value)
    for _, poll in _operations(history, Poll):
        for offset, value in poll.records:
            note(poll.key, offset, value)
    for (key, value), offsets in at.items():
        if len(offsets) > 1:
            found.append(Anomaly("duplicate", f"{key}: {value!r} is at offsets {sorted(offsets)}"))
    return orders, found


def _lost(history: Sequence[Transaction], orders: dict[Key, dict[int, Value]]) -> Iterator[Anomaly]:
    read = {(poll.key, value) for _, poll in _operations(history, Poll) for _, value in poll.records}
    ends: dict[Key, int] = {}
    for _, poll in _operations(history, Poll):
        for offset, _ in poll.records:
            ends[poll.key] = max(offset, ends.get(poll.key, -1))
    offset_of = {(key, value): offset for key, order in orders.items() for offset, value in order.items()}
    for index, send in _operations(history, Send):
        if history[index].outcome is Outcome.OK and (send.key, send.value) not in read:
            offset = offset_of.get((send.key, send.value), -1)
            is_lost = 0 <= offset < ends.get(send.key, -1)
            told = f"{send.key}: {send.value!r} at offset {offset} was acknowledged"
            yield Anomaly(
                "lost-write" if is_lost else "unseen", f"{told}; the last offset read is {ends.get(send.key)}"
            )


def _uncommitted_reads(history: Sequence[Transaction], writers: _Writers) -> Iterator[Anomaly]:
    for index, poll in _operations(history, Poll):
        for offset, value in poll.records:
            owner = writers.of.get((poll.key, value))
            if owner is None:
                yield Anomaly("garbage-read", f"{poll.key}: {value!r} at offset {offset} was written by nobody")
                continue
            writer = history[owner]
            if writer.outcome is Outcome.FAILED:
                yield Anomaly("aborted-read", f"{poll.key}: {value!r} at offset {offset} is of what has failed (G1a)")
            elif owner != index and writer.committing_at is not None and writer.committing_at > history[index].ended_at:
                yield Anomaly("precommitted-read", f"{poll.key}: {value!r} was read before it was to be committed")


def _positions(
    history: Sequence[Transaction], orders: dict[Key, dict[int, Value]], writers: _Writers | None
) -> Iterator[Anomaly]:
    """Compare each offset that is read with the one that the same process read before it."""
    visible: dict[Key, list[int]] = {}
    for key, order in orders.items():
        visible[key] = sorted(
            offset for offset, value in order.items() if writers is None or _is_committed(history, writers, key, value)
        )
    last: dict[tuple[Hashable, Key], tuple[int, int]] = {}
    for index, poll in _operations(history, Poll):
        place = (history[index].process, poll.key)
        if poll.moved:
            last.pop(place, None)
        for offset, _ in poll.records:
            before, seen_in = last.get(place, (None, None))
            prefix = "int-" if seen_in == index else ""
            if before is not None and offset <= before:
                yield Anomaly(f"{prefix}nonmonotonic-poll", f"{place}: offset {offset} after {before}")
            elif before is not None:
                skipped = [one for one in visible[poll.key] if before < one < offset]
                if skipped:
                    yield Anomaly(f"{prefix}poll-skip", f"{place}: from {before} to {offset} without {skipped[:5]}")
            last[place] = offset, index


def _is_committed(history: Sequence[Transaction], writers: _Writers, key: Key, value: Value) -> bool:
    owner = writers.of.get((key, value))
    return owner is not None and history[owner].outcome is Outcome.OK


def _sends_in_order(history: Sequence[Transaction]) -> Iterator[Anomaly]:
    """What one process has sent one after the other stands in that order."""
    last: dict[tuple[Hashable, Key], int] = {}
    for index, send in _operations(history, Send):
        if send.offset is not None:
            place = (history[index].process, send.key)
            if send.offset <= last.get(place, -1):
                yield Anomaly("nonmonotonic-send", f"{place}: offset {send.offset} after {last[place]}")
            last[place] = send.offset


# -- list-append -------------------------------------------------------------------------------------------------------


def check_list_append(history: Sequence[Transaction]) -> list[Anomaly]:
    """Return what is wrong; appends to lists and reads of them.

    `incompatible-order`: two reads of which none begins the other; `duplicate`; `internal`: a read that lacks the
    transaction's own append; `G1a`, `G1b` (an intermediate state), `lost-write`: acknowledged before a read began that
    lacks it; `G0`, `G1c`, `G-single` (one rw), `G2`.
    """
    writers = _Writers(history, Append)
    longest: dict[Key, tuple[Value, ...]] = {}
    found: list[Anomaly] = []
    for _, read in _operations(history, Read):
        known = longest.get(read.key, ())
        shorter, longer = sorted((read.values, known), key=len)
        if longer[: len(shorter)] != shorter:
            found.append(Anomaly("incompatible-order", f"{read.key}: {list(known)} and {list(read.values)}"))
        longest[read.key] = longer
        twice = [value for value, count in Counter(read.values).items() if count > 1]
        if twice:
            found.append(Anomaly("duplicate", f"{read.key}: {twice} in {list(read.values)}"))
    found += _of_reads(history, writers)
    found += _internal(history)
    return [*found, *_cyclic(_list_edges(history, longest, writers))]


def _of_reads(history: Sequence[Transaction], writers: _Writers) -> Iterator[Anomaly]:
    acknowledged: list[tuple[float, Append]] = sorted(
        (history[index].ended_at, append)
        for index, append in _operations(history, Append)
        if history[index].outcome is Outcome.OK
    )
    for index, read in _operations(history, Read):
        for value in read.values:
            owner = writers.of.get((read.key, value))
            if owner is None:
                yield Anomaly("garbage-read", f"{read.key}: {value!r} was written by nobody")
            elif history[owner].outcome is Outcome.FAILED:
                yield Anomaly("G1a", f"{read.key}: {value!r} is of what has failed")
        if read.values:
            last = read.values[-1]
            owner = writers.of.get((read.key, last))
            if owner not in (None, index) and writers.last_of[(owner, read.key)] != last:
                yield Anomaly("G1b", f"{read.key}: {last!r} is not the last value of its transaction")
        for ended_at, append in acknowledged:
            if ended_at >= history[index].began_at:
                break
            if append.key == read.key and append.value not in read.values:
                yield Anomaly("lost-write", f"{read.key}: {append.value!r} was acknowledged before {list(read.values)}")


def _internal(history: Sequence[Transaction]) -> Iterator[Anomaly]:
    for transaction in history:
        own: dict[Key, list[Value]] = defaultdict(list)
        for operation in transaction.operations:
            if isinstance(operation, Append):
                own[operation.key].append(operation.value)
            elif isinstance(operation, Read):
                mine = own[operation.key]
                if mine and list(operation.values[-len(mine) :]) != mine:
                    yield Anomaly("internal", f"{operation.key}: {list(operation.values)} lacks its own {mine}")


def _list_edges(history: Sequence[Transaction], longest: dict[Key, tuple[Value, ...]], writers: _Writers) -> Edges:
    edges: Edges = defaultdict(set)
    owners = {key: [writers.of.get((key, value)) for value in values] for key, values in longest.items()}
    for chain in owners.values():
        for first, second in pairwise(owner for owner in chain if owner is not None):
            edges[(first, second)].add("ww")
    for index, read in _operations(history, Read):
        chain, length = owners.get(read.key, []), len(read.values)
        before = chain[length - 1] if 0 < length <= len(chain) else None
        after = chain[length] if length < len(chain) else None
        if before is not None:
            edges[(before, index)].add("wr")
        if after is not None:
            edges[(index, after)].add("rw")
    return edges


def _cyclic(edges: Edges) -> Iterator[Anomaly]:
    for name, path in cycles(edges):
        yield Anomaly(name, " -> ".join(map(str, path)))


def names(anomalies: Iterable[Anomaly]) -> set[str]:
    """Return which kinds there are."""
    return {anomaly.name for anomaly in anomalies}
