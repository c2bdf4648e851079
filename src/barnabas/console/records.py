"""Records: where a reading begins and ends, records as documents, one record by its link, and producing."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from barnabas.client.position_syntax import END, TIME, Position, Range, parse_position, resolve
from barnabas.console.answers import failure
from barnabas.console.decoders import Shown
from barnabas.console.filters import parse_filter
from barnabas.console.live import encoded
from barnabas.console.masking import MASK
from barnabas.console.scan import Progress, Scan, ScannedRow, ScanRequest
from barnabas.console.scan_threads import MOST_SCANS, ScanThreads
from barnabas.console.topics import offset_bounds
from barnabas.errors import (
    IllegalArgumentError,
    IllegalStateError,
    KafkaError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.aio import AdminClient, Producer
    from barnabas.console.answers import Body
    from barnabas.console.commands import Commands
    from barnabas.console.decoders import Decoders

MOST_SHOWN = 1000
_NEWEST = re.compile(r"newest:(\d{1,9})", re.ASCII)
SHORT, LONG = 2000, 4 * 1024 * 1024
#: Parts that wait for a slow reader; then the scan waits, too.
MOST_WAITING = 16
_ENCODERS: Mapping[str, Callable[[str], bytes]] = {"text": str.encode, "hex": bytes.fromhex}


class Sides(TypedDict):
    """What a record holds."""

    key: Shown
    value: Shown
    headers: list[tuple[str, Shown]]


class RecordRow(Sides):
    """A record; times in epoch milliseconds, -1 for none. `link` is its place in the console."""

    partition: int
    offset: int
    timestamp: int
    timestampType: int
    link: str


class Produced(TypedDict):
    """Where a record went."""

    partition: int
    offset: int
    link: str
    command: str


class Reading(NamedTuple):
    """What a request wants to read: the words of the query."""

    topic: str
    start: str
    partitions: list[int]
    filter: str
    limit: int
    is_live: bool
    key_form: str
    value_form: str
    seconds: float = 60.0
    read_committed: bool = False


async def scan_request(admin: AdminClient, reading: Reading, now_ms: int) -> ScanRequest:
    """Look up where a reading begins and ends. Raises `IllegalArgumentError`, `UnknownTopicOrPartitionError`."""
    condition = parse_filter(reading.filter, now_ms) if reading.filter.strip() else None
    newest = _newest(reading)
    position = Position(END, -newest) if newest else parse_position(reading.start, now_ms)
    description = (await admin.describe_topics([reading.topic]))[reading.topic]
    first, end = await offset_bounds(admin, description)
    unknown = sorted(set(reading.partitions) - end.keys())
    if unknown:
        raise UnknownTopicOrPartitionError(
            f"{reading.topic} has no partition {', '.join(map(str, unknown))} with a leader"
        )
    chosen = reading.partitions or sorted(end)
    at_time: dict[int, int] = {}
    if position.kind == TIME:
        listed = await admin.list_offsets({TopicPartition(reading.topic, number): position.value for number in chosen})
        at_time = {partition.partition: found.offset for partition, found in listed.items() if found.offset >= 0}
    starts = {n: resolve(position, Range(first[n], end[n]), at_time.get(n)) for n in chosen}
    return ScanRequest(
        reading.topic,
        starts,
        None if reading.is_live else {number: end[number] for number in chosen},
        condition,
        reading.key_form,
        reading.value_form,
        # Each partition's last records are looked at; the latest of all are handed out.
        newest * len(chosen) + 1 if newest else reading.limit,
        reading.seconds,
        reading.read_committed,
        newest,
    )


def _newest(reading: Reading) -> int:
    """Return how many of the newest records of all partitions are wanted; 0 for another kind of reading."""
    found = _NEWEST.fullmatch(reading.start)
    if found is None:
        return 0
    if reading.is_live:
        raise IllegalArgumentError("newest is for what there is; live shows what comes")
    wanted = int(found[1])
    if not 1 <= wanted <= MOST_SHOWN:
        raise IllegalArgumentError(f"newest must be 1 to {MOST_SHOWN}, not {wanted}")
    return wanted


def record_row(row: ScannedRow, request: ScanRequest, decoders: Decoders, longest: int) -> RecordRow:
    """Return a record as a document."""
    partition, offset = row.column("partition"), row.column("offset")
    return {
        "partition": partition,
        "offset": offset,
        "timestamp": row.timestamp,
        "timestampType": row.timestamp_type,
        **shown_sides(row, request, decoders, longest),
        "link": link_of(request.topic, partition, offset),
    }


def shown_sides(row: ScannedRow, request: ScanRequest, decoders: Decoders, longest: int) -> Sides:
    """Return what of a record is shown, with what is masked taken out: the only way to it."""
    mask = request.mask
    key, value = (None if mask is None else partial(mask.decoded, side) for side in ("key", "value"))
    return {
        "key": decoders.shown(row.key, request.key_form, longest, key),
        "value": decoders.shown(row.value, request.value_form, longest, value),
        "headers": [
            (
                name,
                decoders.shown(
                    MASK.encode() if mask is not None and mask.hides_header(name) else found, "auto", longest
                ),
            )
            for name, found in row.headers
        ],
    }


def link_of(topic: str, partition: int, offset: int) -> str:
    """Return a record's place in the console."""
    return f"#/record/{topic}/{partition}/{offset}"


class Scans:
    """The scans of a session that run now: bounded in number, each in a thread, cancelled with its reader."""

    def __init__(self, client: Mapping[str, Any], decoders: Decoders, threads: ScanThreads) -> None:
        self._client = client
        self._decoders = decoders
        self._threads = threads
        self._running: set[Scan] = set()

    @property
    def are_running(self) -> bool:
        """Whether any scan runs."""
        return bool(self._running)

    def form_of(self, topic: str, side: str) -> str:
        """Return the form in which a side of a topic's records is read where none is asked for."""
        return self._decoders.form_of(topic, side, "auto")

    def cancel_all(self) -> None:
        """End all scans soon."""
        for scan in self._running:
            scan.cancel()

    def check(self) -> None:
        """Raise `IllegalArgumentError` when no further scan may begin."""
        if len(self._running) >= MOST_SCANS:
            raise IllegalArgumentError(f"{MOST_SCANS} scans are running; cancel one, or wait")
        if self._threads.is_full:
            raise IllegalStateError(f"{self._threads.running} scans of all people are running; wait until one ends")

    async def parts(self, request: ScanRequest) -> AsyncIterator[list[ScannedRow] | Progress | str]:
        """Run a scan; yield its matches, its progress, and at last why it ended. Raises `KafkaError`, `ImportError`."""
        # Several may have passed an earlier check while they looked up where to begin.
        self.check()
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[list[ScannedRow] | Progress | None] = asyncio.Queue()
        scan = Scan(self._client, request, self._decoders)

        def put(part: list[ScannedRow] | Progress | None) -> None:
            while queue.qsize() > MOST_WAITING and not scan.is_cancelled:
                time.sleep(0.01)
            loop.call_soon_threadsafe(queue.put_nowait, part)

        def run() -> str:
            try:
                return scan.run(put, put)
            finally:
                put(None)
                loop.call_soon_threadsafe(self._ended)

        self._running.add(scan)
        self._threads.running += 1
        running = loop.run_in_executor(self._threads.executor, run)
        try:
            while (part := await queue.get()) is not None:
                yield part
            yield await running
        finally:
            scan.cancel()
            self._running.discard(scan)
            # Its thread ends within a poll; its error is dropped, as no request waits for it any more.
            running.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _ended(self) -> None:
        self._threads.running -= 1

    async def events(self, request: ScanRequest) -> AsyncIterator[bytes]:
        """Yield a scan as server-sent events: records, progress, done or failed."""
        try:
            async for part in self.parts(request):
                if isinstance(part, str):
                    yield encoded("done", part)
                elif isinstance(part, Progress):
                    yield encoded("progress", part._asdict())
                else:
                    yield encoded("records", [record_row(row, request, self._decoders, SHORT) for row in part])
        except (KafkaError, ImportError) as problem:
            yield encoded("failed", failure(problem))

    async def one(self, request: ScanRequest) -> RecordRow:
        """Return the first record of a scan, whole. Raises `OffsetOutOfRangeError` where there is none."""
        async for part in self.parts(request):
            if isinstance(part, list):
                return record_row(part[0], request, self._decoders, LONG)
        raise OffsetOutOfRangeError(
            f"{request.topic} has no record there: deleted, compacted, or a transaction's marker"
        )


async def one_record_request(admin: AdminClient, place: tuple[str, int, int], forms: tuple[str, str]) -> ScanRequest:
    """Return the scan that finds one record. Raises `OffsetOutOfRangeError`, `UnknownTopicOrPartitionError`."""
    topic, partition, offset = place
    description = (await admin.describe_topics([topic]))[topic]
    first, end = await offset_bounds(admin, description)
    if partition not in end:
        raise UnknownTopicOrPartitionError(f"{topic} has no partition {partition} with a leader")
    if not first[partition] <= offset < end[partition]:
        here, last = f"{topic}-{partition}", end[partition] - 1
        is_empty = last < first[partition]
        text = (
            f"{here} has no records" if is_empty else f"{here} has offsets {first[partition]} to {last}, not {offset}"
        )
        raise OffsetOutOfRangeError(text)
    return ScanRequest(topic, {partition: offset}, {partition: offset + 1}, None, *forms, 1, 15.0)


async def produce(producer: Producer[bytes, bytes], topic: str, body: Body, commands: Commands) -> Produced:
    """Send one record and wait for it; the topic must be there. Raises `IllegalArgumentError`, `KafkaError`."""
    key, value = _side(body, "key"), _side(body, "value")
    headers = [(name, value.encode()) for name, value in body.settings("headers").items()]
    partition = body.integer("partition", -1)
    sent = await producer.send(topic, value, key, None if partition < 0 else partition, headers=headers)
    done = await sent
    words = ["produce", topic, *(["-p", str(partition)] if partition >= 0 else [])]
    return {
        "partition": done.partition,
        "offset": done.offset,
        "link": link_of(topic, done.partition, done.offset),
        "command": commands.line(*words),
    }


def _side(body: Body, name: str) -> bytes | None:
    """Return key or value from `name` and `nameForm` (text, hex, null)."""
    form = body.text(f"{name}Form")
    if form == "null":
        return None
    encode = _ENCODERS.get(form)
    if encode is None:
        raise IllegalArgumentError(f"{name}Form must be text, hex or null, not {form!r}")
    try:
        return encode(body.text(name))
    except ValueError:
        raise IllegalArgumentError(f"{name} cannot be written as {form}") from None
