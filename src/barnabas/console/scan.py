"""`Scan`: reads partitions as Arrow batches in a thread of its own, and hands out what matches a filter.

Bounded in every way: by an end in each partition, a number of matches, a time, and by `cancel`.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas import Consumer
from barnabas.console.decoders import Decoders
from barnabas.console.filters import Condition
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.console.masking import TopicMask

_POLL_SECONDS = 0.2
_PROGRESS_SECONDS = 0.25
#: Far more than a page shows at once: the scan reads whole fetches.
_SETTINGS = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.max.bytes": 64 * 1024 * 1024,
    "max.partition.fetch.bytes": 8 * 1024 * 1024,
    "fetch.max.wait.ms": 100,
    "allow.auto.create.topics": False,
}


class ScanRequest(NamedTuple):
    """What to read: `starts` and `ends` by partition (no end: for as long as it takes), and what of it to hand out.

    With `newest` the latest so many of all partitions, the latest first, once all was read.
    """

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int] | None
    condition: Condition | None
    key_form: str = "auto"
    value_form: str = "auto"
    most_matches: int = 100
    most_seconds: float = 60.0
    read_committed: bool = False
    newest: int = 0
    mask: TopicMask | None = None


class Progress(NamedTuple):
    """How far a scan is; `left` are the records up to the ends, None where there are no ends."""

    scanned: int
    bytes: int
    matched: int
    seconds: float
    left: int | None


class ScannedRow:
    """A record of an Arrow batch, as filters and views see it (`filters.Row`)."""

    def __init__(self, columns: dict[str, Any], request: ScanRequest, decoders: Decoders) -> None:
        self.key: bytes | None = columns["key"]
        self.value: bytes | None = columns["value"]
        self._columns = columns
        self._request = request
        self._decoders = decoders

    @cached_property
    def timestamp(self) -> int:
        """Epoch milliseconds, -1 for none."""
        return int(self._columns["timestamp"])

    def column(self, name: str) -> int:
        """See `filters.Row`."""
        if name == "size":
            return len(self.key or b"") + len(self.value or b"")
        return int(self._columns[name])

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers in their order."""
        return [(header["key"], header["value"]) for header in self._columns["headers"] or ()]

    @property
    def timestamp_type(self) -> int:
        """0: the producer's, 1: the broker's."""
        return int(self._columns["timestampType"])

    def header_values(self, name: str) -> list[bytes | None]:
        """See `filters.Row`."""
        return [value for key, value in self.headers if key == name]

    def document(self, side: str) -> Any:
        """See `filters.Row`."""
        return self._documents[side]

    @cached_property
    def _documents(self) -> _Documents:
        return _Documents(self, self._request, self._decoders)


class _Documents(dict[str, Any]):
    """Key and value decoded, each once, when it is asked for."""

    def __init__(self, row: ScannedRow, request: ScanRequest, decoders: Decoders) -> None:
        super().__init__()
        self._of = {
            "key": lambda: decoders.decode(row.key, request.key_form).document,
            "value": lambda: decoders.decode(row.value, request.value_form).document,
        }

    def __missing__(self, side: str) -> Any:
        self[side] = self._of[side]()
        return self[side]


class Newest:
    """Keeps the latest so many rows: by time, and of one time by partition and offset."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, int, ScannedRow]] = []

    def take(self, rows: list[ScannedRow]) -> None:
        """Take rows in, and let go of those that are not among the latest any more."""
        for row in rows:
            entry = row.timestamp, row.column("partition"), row.column("offset"), row
            if len(self._heap) < self._most:
                heapq.heappush(self._heap, entry)
            else:
                heapq.heappushpop(self._heap, entry)

    def rows(self) -> list[ScannedRow]:
        """Return them, the latest first."""
        return [row for *_, row in sorted(self._heap, key=lambda entry: entry[:3], reverse=True)]


class Scan:
    """One scan: `run` in a thread, `cancel` from any."""

    def __init__(
        self,
        client: Mapping[str, Any],
        request: ScanRequest,
        decoders: Decoders,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._request = request
        self._decoders = decoders
        self._monotonic = monotonic
        self.is_cancelled = False
        self._scanned = self._bytes = self._matched = 0
        self._is_plain = {
            "key": decoders.is_plain(request.key_form),
            "value": decoders.is_plain(request.value_form),
        }

    def cancel(self) -> None:
        """End the scan soon."""
        self.is_cancelled = True

    def run(self, on_rows: Callable[[list[ScannedRow]], None], on_progress: Callable[[Progress], None]) -> str:
        """Scan; return why it ended: "end", "enough", "time" or "cancelled".

        Matches are handed out in batches as they are found, progress four times a second and once at the end. Raises
        `KafkaError`, and `ImportError` where pyarrow is missing.
        """
        request = self._request
        newest = Newest(request.newest) if request.newest else None
        take = on_rows if newest is None else newest.take
        left = self._unread()
        settings = {**self._client, **_SETTINGS, "isolation.level": _isolation(request.read_committed)}
        began = told = self._monotonic()
        if not left:
            on_progress(Progress(0, 0, 0, 0.0, 0))
            return "end"
        reason = ""
        with Consumer(settings) as consumer:
            consumer.assign([TopicPartition(request.topic, number) for number in left])
            for number, start in left.items():
                consumer.seek(TopicPartition(request.topic, number), start)
            while not reason:
                batch = consumer.poll_arrow(_POLL_SECONDS)
                if batch is not None and batch.num_rows:
                    self._scan_batch(batch, take)
                now = self._monotonic()
                remaining = self._remaining(consumer, left)
                reason = self._reason(remaining, now - began)
                if now - told >= _PROGRESS_SECONDS or reason:
                    told = now
                    on_progress(Progress(self._scanned, self._bytes, self._matched, now - began, remaining))
        if newest is not None and newest.rows():
            on_rows(newest.rows())
        return reason

    def _unread(self) -> dict[int, int]:
        ends = self._request.ends
        return {n: start for n, start in self._request.starts.items() if ends is None or start < ends[n]}

    def _remaining(self, consumer: Consumer[Any, Any], left: dict[int, int]) -> int | None:
        """Pause what has been read to its end; return how many offsets are before the ends."""
        ends = self._request.ends
        if ends is None:
            return None
        remaining = 0
        for number in list(left):
            partition = TopicPartition(self._request.topic, number)
            behind = ends[number] - consumer.position(partition)
            if behind <= 0:
                consumer.pause([partition])
                del left[number]
            else:
                remaining += behind
        return remaining

    def _reason(self, remaining: int | None, seconds: float) -> str:
        reached = {
            "cancelled": self.is_cancelled,
            "enough": self._matched >= self._request.most_matches,
            "end": remaining == 0,
            "time": seconds >= self._request.most_seconds,
        }
        return next((reason for reason, is_reached in reached.items() if is_reached), "")

    def _scan_batch(self, batch: pa.RecordBatch, on_rows: Callable[[list[ScannedRow]], None]) -> None:
        self._scanned += batch.num_rows
        self._bytes += batch.nbytes
        found = []
        for row in self._candidates(batch):
            if self._matched >= self._request.most_matches or self.is_cancelled:
                break
            if self._is_wanted(row):
                self._matched += 1
                found.append(row)
        if found:
            on_rows(found)

    def _is_wanted(self, row: ScannedRow) -> bool:
        ends, condition = self._request.ends, self._request.condition
        if ends is not None and row.column("offset") >= ends.get(row.column("partition"), 0):
            return False
        return condition is None or condition.matches(row)

    def _candidates(self, batch: pa.RecordBatch) -> Iterator[ScannedRow]:
        condition = self._request.condition
        if condition is not None:
            mask = condition.mask(batch, is_plain=all(self._is_plain.values()))
            if mask.rows is not None:
                batch = batch.filter(mask.rows)
        # A few rows at a time: most scans end long before the last row of a batch.
        for first in range(0, batch.num_rows, 256):
            yield from (ScannedRow(row, self._request, self._decoders) for row in _rows(batch.slice(first, 256)))


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    import pyarrow as pa

    # Epoch milliseconds: a datetime cannot hold every timestamp that a record may have.
    at = batch.schema.get_field_index("timestamp")
    micros = batch.column(at).cast(pa.int64())
    rows: list[dict[str, Any]] = batch.set_column(at, "timestamp", micros).to_pylist()
    for row in rows:
        row["timestamp"] = -1 if row["timestamp"] is None else row["timestamp"] // 1000
    return rows


def _isolation(read_committed: bool) -> str:
    return "read_committed" if read_committed else "read_uncommitted"
