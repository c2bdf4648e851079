"""Reads what `consume --share` prints: a queue, whose records are accepted once they are written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from barnabas.cli.output import note
from barnabas.cli.record_format import write_formatted
from barnabas.cli.signals import StopSignals
from barnabas.errors import WakeupError

if TYPE_CHECKING:
    from barnabas.cli.consume_reader import Output
    from barnabas.cli.record_format import Formatter
    from barnabas.client.consumer.share.share_consumer import ShareConsumer

POLL_TIMEOUT = 0.5
#: Seconds without a record after which there are none now; until the group has given its partitions, longer.
QUIET, QUIET_AT_FIRST = 1.5, 10.0


class ShareReader:
    """One run of `consume --share`: polls, writes, accepts what was written, and knows when it is done.

    The consumer acknowledges explicitly: what was polled and not written is released by its end.
    """

    def __init__(
        self, consumer: ShareConsumer, format_record: Formatter, output: Output, *, count: int | None, ends: bool
    ) -> None:
        self._consumer = consumer
        self._format = format_record
        self._output = output
        self._left = count
        self._ends = ends

    def read(self) -> int:
        """Print records until the end that was asked for, or a signal; gives the exit code."""
        quiet_from = time.monotonic() + (QUIET_AT_FIRST - QUIET)
        with StopSignals(self._consumer.wakeup) as signals:
            while not signals.received and self._left != 0:
                try:
                    found = self._print()
                except WakeupError:
                    continue
                if found:
                    quiet_from = time.monotonic()
                else:
                    self._output.check()
                    if self._ends and time.monotonic() > quiet_from + QUIET:
                        break
            self._commit()
        return signals.code

    def _print(self) -> int:
        records = list(self._consumer.poll(POLL_TIMEOUT))
        printed = records if self._left is None else records[: self._left]
        write_formatted(self._output.write, self._format, printed)
        for record in printed:
            self._consumer.acknowledge(record)
        for record in records[len(printed) :]:
            self._consumer.acknowledge(record, "release")
        if self._left is not None:
            self._left -= len(printed)
        return len(records)

    def _commit(self) -> None:
        try:
            results = self._consumer.commit_sync()
        except WakeupError:
            # The signal came after the last poll; it has done what it should.
            results = self._consumer.commit_sync()
        for partition, error in results.items():
            if error is not None:
                note(f"records of {partition} were printed and not accepted, so they come again: {error}")
