"""Redriving: records of a topic, such as a dead-letter queue, sent to another one as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypedDict

from barnabas.console.records import Reading, Scans, scan_request
from barnabas.errors import IllegalArgumentError, KafkaError

if TYPE_CHECKING:
    from barnabas.aio import AdminClient, Producer
    from barnabas.console.answers import Body
    from barnabas.console.commands import Commands
    from barnabas.console.scan import ScannedRow

MOST_REDRIVEN = 100_000
#: So many records are on their way at once.
_IN_FLIGHT = 1000


class Redriven(TypedDict):
    """How many records were found and sent, or with `dryRun` would be; `ended` says why it ended, as a reading does.

    `error` is the first of those that could not be sent: `found - sent` are missing in the other topic.
    """

    dryRun: bool
    found: int
    sent: int
    ended: str
    error: str | None
    command: str


async def redrive(
    clients: tuple[AdminClient, Producer[bytes, bytes]], scans: Scans, topic: str, body: Body, now_ms: int,
    commands: Commands,
) -> Redriven:  # fmt: skip
    """Send what a reading finds to another topic: keys, values and headers as they are, with new times.

    A filter sees keys and values in the forms of the topic's rules. Raises `IllegalArgumentError`,
    `UnknownTopicOrPartitionError`, ...
    """
    admin, producer = clients
    to, dry_run = body.text("to"), body.flag("dryRun")
    if to == topic:
        raise IllegalArgumentError("records are redriven to another topic; a reading of this one would find them again")
    reading = _reading(topic, body, scans)
    # A producer would have a topic made that is not there, where brokers do that.
    await admin.describe_topics([to])
    request = await scan_request(admin, reading, now_ms)
    scans.check()
    found, ended, sending = 0, "", _Sending(producer, to, keeps_partition=body.flag("keepPartition"))
    async for part in scans.parts(request):
        if isinstance(part, list):
            found += len(part)
            if not dry_run:
                await sending.send(part)
                if sending.error is not None:
                    break
        elif isinstance(part, str):
            ended = part
    await sending.settle()
    return {
        "dryRun": dry_run,
        "found": found,
        "sent": found if dry_run else sending.sent,
        "ended": "failed" if sending.error is not None else ended,
        "error": sending.error,
        "command": commands.line("consume", topic, "--from", reading.start),
    }


def _reading(topic: str, body: Body, scans: Scans) -> Reading:
    limit = body.integer("limit", MOST_REDRIVEN)
    if not 1 <= limit <= MOST_REDRIVEN:
        raise IllegalArgumentError(f"limit must be 1 to {MOST_REDRIVEN}, not {limit}")
    start = body.text("from") if body.has("from") else "beginning"
    filter_text = body.text("filter") if body.has("filter") else ""
    partitions = [_number(text) for text in body.texts("partitions")]
    forms = scans.form_of(topic, "key"), scans.form_of(topic, "value")
    return Reading(topic, start, partitions, filter_text, limit, False, *forms, read_committed=True)


class _Sending:
    """Sends records, so many at once, and counts those that are acknowledged."""

    def __init__(self, producer: Producer[bytes, bytes], topic: str, *, keeps_partition: bool) -> None:
        self._producer = producer
        self._topic = topic
        self._keeps_partition = keeps_partition
        self._acknowledgements: list[Awaitable[object]] = []
        self.sent = 0
        self.error: str | None = None

    async def send(self, rows: list[ScannedRow]) -> None:
        """Send rows; those before them may still be on their way."""
        for row in rows:
            partition = row.column("partition") if self._keeps_partition else None
            try:
                sent = await self._producer.send(self._topic, row.value, row.key, partition, headers=row.headers)
            except KafkaError as problem:
                self._failed(problem)
                return
            self._acknowledgements.append(sent)
            if len(self._acknowledgements) >= _IN_FLIGHT:
                await self.settle()
                if self.error is not None:
                    return

    async def settle(self) -> None:
        """Wait for what is on its way."""
        waiting, self._acknowledgements = self._acknowledgements, []
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            if isinstance(result, KafkaError):
                self._failed(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                self.sent += 1

    def _failed(self, problem: KafkaError) -> None:
        self.error = self.error or f"{type(problem).__name__}: {problem}"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise IllegalArgumentError(f"partitions must be numbers, not {text!r}")
    return int(text)
