"""Kafka's VerifiableProducer: sends increasing numbers, and says of each what became of it, in lines of JSON.

`python -m barnabas.testing.verifiable_producer --topic t --bootstrap-server localhost:9092` takes the arguments of
kafka-verifiable-producer.sh. It ends after --max-messages, or on SIGTERM, when all that was sent has been answered.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from barnabas import Producer
from barnabas.client.producer.append import RecordMetadata
from barnabas.errors import KafkaError
from barnabas.testing.verifiable_events import add_common_arguments, on_stop_signals, print_event, settings_of

_PAUSE = 0.1


class VerifiableProducer:
    """Sends, and prints an event for every answer; the callbacks run on the Sender's thread."""

    def __init__(self, producer: Producer[str | None, str], arguments: argparse.Namespace) -> None:
        self._producer = producer
        self._topic: str = arguments.topic
        self._throughput: int = arguments.throughput
        self._max_messages: int = arguments.max_messages
        self._prefix = "" if arguments.value_prefix is None else f"{arguments.value_prefix}."
        self._keys = _keys(arguments.repeating_keys)
        self._create_time: int | None = None if arguments.message_create_time == -1 else arguments.message_create_time
        self._started = time.monotonic()
        self._stopping = threading.Event()
        self._sent = 0
        self._acked = 0

    def stop(self) -> None:
        """Send nothing more; from any thread and from signal handlers."""
        self._stopping.set()

    def run(self) -> None:
        """Send until it is enough, then wait for all answers and sum up."""
        print_event("startup_complete")
        numbers = itertools.count() if self._max_messages < 0 else range(self._max_messages)
        for number in numbers:
            if self._stopping.is_set():
                break
            self._send(next(self._keys), f"{self._prefix}{number}")
            self._throttle()
        self._producer.close()
        print_event("shutdown_complete")
        seconds = time.monotonic() - self._started
        print_event(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._throughput,
            avg_throughput=self._acked / seconds,
        )

    def _send(self, key: str | None, value: str) -> None:
        self._sent += 1
        try:
            self._producer.send(
                self._topic,
                key=key,
                value=value,
                timestamp_ms=self._create_time,
                on_delivery=self._on_completion(key, value),
            )
        except KafkaError as error:
            self._print_error(key, value, error)
        if self._create_time is not None:
            self._create_time += int((time.monotonic() - self._started) * 1000)

    def _on_completion(self, key: str | None, value: str) -> Callable[[RecordMetadata, BaseException | None], None]:
        def on_completion(metadata: RecordMetadata, error: BaseException | None) -> None:
            if error is not None:
                self._print_error(key, value, error)
                return
            self._acked += 1
            print_event(
                "producer_send_success",
                key=key,
                value=value,
                topic=metadata.topic,
                partition=metadata.partition,
                offset=metadata.offset,
            )

        return on_completion

    def _print_error(self, key: str | None, value: str, error: BaseException) -> None:
        kind = type(error)
        print_event(
            "producer_send_error",
            key=key,
            value=value,
            topic=self._topic,
            exception=f"class {kind.__module__}.{kind.__qualname__}",
            message=str(error),
        )

    def _throttle(self) -> None:
        """Wait while more has been sent than the throughput allows."""
        if self._throughput < 0:
            return
        while not self._stopping.is_set():
            seconds = time.monotonic() - self._started
            ahead = _PAUSE if self._throughput == 0 else self._sent / self._throughput - seconds
            if ahead <= 0:
                return
            self._stopping.wait(min(ahead, _PAUSE))


def _keys(count: int | None) -> Iterator[str | None]:
    return itertools.repeat(None) if not count else itertools.cycle(map(str, range(count)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="verifiable-producer",
        description="Sends increasing numbers to a topic and prints, as JSON, which of them were acknowledged.",
    )
    add_common_arguments(parser, "--producer.config")
    parser.add_argument("--throughput", type=int, default=-1, metavar="N", help="messages a second, about; -1: all")
    parser.add_argument("--acks", type=int, default=-1, choices=(0, 1, -1), help="acknowledgements to wait for")
    parser.add_argument(
        "--message-create-time", type=int, default=-1, metavar="MS", help="timestamps begin here (epoch milliseconds)"
    )
    parser.add_argument("--value-prefix", type=int, metavar="N", help="values are N.0, N.1, ...")
    parser.add_argument("--repeating-keys", type=int, metavar="N", help="keys are 0 to N-1, again and again")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the program; gives its exit code."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    settings: dict[str, Any] = {
        "bootstrap.servers": parsed.bootstrap_server,
        "acks": str(parsed.acks),
        "retries": 0,
        **settings_of(parser, parsed),
    }
    try:
        producer: Producer[str | None, str] = Producer(settings, key_serializer=_text, value_serializer=_text)
    except KafkaError as problem:
        parser.exit(1, f"{parser.prog}: error: {problem}\n")
    running = VerifiableProducer(producer, parsed)
    on_stop_signals(running.stop)
    running.run()
    return 0


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


if __name__ == "__main__":
    sys.exit(main())
