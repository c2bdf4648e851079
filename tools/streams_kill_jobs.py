"""The applications that `tools.spark_streams_kills` torments, and what readers of committed records must see of them.

Of each a record is written once, with its number as its timestamp and a key in turn.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from barnabas.streams import Grouped, JoinWindows, Serdes, StreamJoined, StreamsBuilder, TimeWindows, Topology

PARTITIONS = 2


class Counting:
    """Counts records by key, behind a repartition topic: each key's counts are there one after the other."""

    KEYS, AT_ONCE = 40, 200
    SOURCES: Sequence[str] = ("events",)
    TARGETS: Sequence[str] = ("counts",)
    STORE = "seen"

    def topology(self) -> Topology:
        """Return the steps."""
        steps = StreamsBuilder()
        events = steps.stream("events", key=Serdes.string(), value=Serdes.string())
        grouped = events.group_by(lambda key, value: value, Grouped.with_(Serdes.string(), Serdes.string()))
        grouped.count(store=self.STORE).to_stream().to("counts", key=Serdes.string(), value=Serdes.long())
        return steps.build()

    def records(self, number: int) -> Iterator[tuple[str, bytes | None, bytes]]:
        """Yield topic, key and value of what is written as this number."""
        yield "events", None, b"%d" % (number % self.KEYS)

    def problems(self, read: Mapping[str, Sequence[Any]], sent: int) -> list[str]:
        """Return what is wrong with the counts; `read` are the committed records by topic, changelogs among them."""
        wanted = {b"%d" % key: len(range(key, sent, self.KEYS)) for key in range(self.KEYS)}
        found = _wrong_counts(((record.key, record.value) for record in read["counts"]), wanted)
        logged = {record.key: int.from_bytes(record.value, "big") for record in read[f"kills-{self.STORE}-changelog"]}
        return found if logged == wanted else [*found, f"the changelog holds {logged}"]

    def changelogs(self) -> list[str]:
        """Return the changelog topics that `problems` looks at."""
        return [f"kills-{self.STORE}-changelog"]

    def settings(self) -> dict[str, Any]:
        """Return the settings of a start."""
        return {}


class Repartitioned(Counting):
    """Counts behind a repartition topic, and the changes of these counts behind another one.

    Each start reads them within its batches or a batch later, by chance.
    """

    TARGETS: Sequence[str] = ("counts", "echoes")
    ECHOES = "echoed"

    def topology(self) -> Topology:
        """Return the steps."""
        steps = StreamsBuilder()
        text, number = Serdes.string(), Serdes.long()
        events = steps.stream("events", key=text, value=text)
        grouped = events.group_by(lambda key, value: value, Grouped.with_(text, text))
        counts = grouped.count(store=self.STORE).to_stream()
        counts.to("counts", key=text, value=number)
        echoes = counts.group_by(lambda key, count: f"{key}!", Grouped.with_(text, number)).count(store=self.ECHOES)
        echoes.to_stream().to("echoes", key=text, value=number)
        return steps.build()

    def settings(self) -> dict[str, Any]:
        """Return the settings of a start."""
        return {"repartition.within.batch": random.random() < 0.7}

    def problems(self, read: Mapping[str, Sequence[Any]], sent: int) -> list[str]:
        """Return what is wrong with the counts, and with the counts of their changes."""
        wanted = {b"%d!" % key: len(range(key, sent, self.KEYS)) for key in range(self.KEYS)}
        echoes = _wrong_counts(((record.key, record.value) for record in read["echoes"]), wanted)
        return [*super().problems(read, sent), *echoes]


class WindowsAndJoins:
    """Counts in windows, and joins two streams, with ten thousand keys.

    Each key's counts in each window are there one after the other. Both sides of a join have the same number and time,
    and join within no time at all: each pair is there once, and no other.
    """

    KEYS, AT_ONCE = 10_000, 2_000
    WINDOW = 25_000
    SOURCES: Sequence[str] = ("left", "right")
    TARGETS: Sequence[str] = ("counts", "pairs")

    def topology(self) -> Topology:
        """Return the steps."""
        text = {"key": Serdes.string(), "value": Serdes.string()}
        steps = StreamsBuilder()
        left, right = (steps.stream(topic, **text) for topic in self.SOURCES)
        windows = TimeWindows.of_size_with_no_grace(self.WINDOW)
        counts = left.group_by_key().windowed_by(windows.with_grace(1_000_000_000)).count(store="seen")
        counts.to_stream(lambda window, count: f"{window.key}@{window.window.start}").to(
            "counts", key=Serdes.string(), value=Serdes.long()
        )
        within = JoinWindows.of_time_difference_and_grace(0, 1_000_000)
        joined = StreamJoined.with_(Serdes.string(), Serdes.string(), Serdes.string())
        left.join(right, lambda one, other: f"{one}={other}", within, joined).to("pairs", **text)
        return steps.build()

    def records(self, number: int) -> Iterator[tuple[str, bytes | None, bytes]]:
        """Yield topic, key and value of what is written as this number."""
        for topic in self.SOURCES:
            yield topic, b"%d" % (number % self.KEYS), b"%d" % number

    def problems(self, read: Mapping[str, Sequence[Any]], sent: int) -> list[str]:
        """Return what is wrong with counts and pairs."""
        wanted = collections.Counter(
            b"%d@%d" % (number % self.KEYS, number - number % self.WINDOW) for number in range(sent)
        )
        found = _wrong_counts(((record.key, record.value) for record in read["counts"]), wanted)
        pairs = collections.Counter((record.key, record.value) for record in read["pairs"])
        right = collections.Counter((b"%d" % (n % self.KEYS), b"%d=%d" % (n, n)) for n in range(sent))
        found += [f"pair {pair} is missing" for pair in (right - pairs)]
        return found + [f"pair {pair} is there once too often" for pair in (pairs - right)]

    def changelogs(self) -> list[str]:
        """Return the changelog topics that `problems` looks at."""
        return []

    def settings(self) -> dict[str, Any]:
        """Return the settings of a start."""
        return {}


JOBS: dict[str, type[Counting] | type[WindowsAndJoins]] = {
    "counts": Counting, "repartitioned": Repartitioned, "windows-and-joins": WindowsAndJoins,
}  # fmt: skip


def _wrong_counts(records: Iterator[tuple[bytes, bytes]], wanted: Mapping[bytes, int]) -> list[str]:
    counts: dict[bytes, list[int]] = collections.defaultdict(list)
    for key, value in records:
        counts[key].append(int.from_bytes(value, "big"))
    return [
        f"key {key!r}: {counts[key]}, wanted 1 to {wanted.get(key, 0)}"
        for key in {*counts, *wanted}
        if counts[key] != [*range(1, wanted.get(key, 0) + 1)]
    ]
