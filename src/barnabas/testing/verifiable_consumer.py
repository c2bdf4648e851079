"""Kafka's VerifiableConsumer: reads a topic in a group, and prints what happens in lines of JSON.

`python -m barnabas.testing.verifiable_consumer --topic t --group-id g --bootstrap-server localhost:9092` takes the
arguments of kafka-verifiable-consumer.sh. It ends after --max-messages, or on SIGTERM.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from barnabas import Consumer, TopicPartition
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import FencedInstanceIdError, KafkaError, WakeupError
from barnabas.testing.verifiable_events import add_common_arguments, on_stop_signals, print_event, settings_of

_LONG = 3600.0


class VerifiableConsumer(ConsumerRebalanceListener):
    """Reads and commits, and prints an event for everything that happens."""

    def __init__(self, consumer: Consumer[str, str], arguments: argparse.Namespace) -> None:
        self._consumer = consumer
        self._topic: str = arguments.topic
        self._max_messages: int = arguments.max_messages
        self._auto_commits: bool = arguments.enable_autocommit
        self._is_verbose: bool = arguments.verbose
        self._consumed = 0

    def run(self) -> int:
        """Read until it is enough or `wakeup` is called; gives the exit code."""
        code = 0
        try:
            print_event("startup_complete")
            self._consumer.subscribe([self._topic], self)
            while not self._is_finished:
                offsets = self._on_records_received(self._consumer.poll(_LONG))
                if offsets and not self._auto_commits:
                    self._commit(offsets)
        except WakeupError:
            print_event("shutdown_requested")
        except KafkaError as error:
            print(f"Error during processing, terminating consumer process: {error!r}", file=sys.stderr)  # noqa: T201  (the log of this program)
            code = 1
        finally:
            self._consumer.close()
            print_event("shutdown_complete")
        return code

    @property
    def _is_finished(self) -> bool:
        return 0 <= self._max_messages <= self._consumed

    def _on_records_received(self, records: ConsumerRecords[str, str]) -> dict[TopicPartition, OffsetAndMetadata]:
        offsets, summaries = {}, []
        for partition in sorted(records.partitions()):
            taken = records.records(partition)
            if self._max_messages >= 0:
                taken = taken[: self._max_messages - self._consumed]
            if not taken:
                continue
            first, last = taken[0].offset, taken[-1].offset
            offsets[partition] = OffsetAndMetadata(last + 1)
            summaries.append({**_fields(partition), "count": len(taken), "minOffset": first, "maxOffset": last})
            if self._is_verbose:
                for record in taken:
                    value = {"key": record.key, "value": record.value, **_fields(partition), "offset": record.offset}
                    print_event("record_data", **value)
            self._consumed += len(taken)
        if summaries:
            print_event("records_consumed", count=len(records), partitions=summaries)
        return offsets

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            self._consumer.commit(offsets)
        except WakeupError:
            # `wakeup` is called once, to end this program: what was read is committed first.
            self._commit(offsets)
            raise
        except FencedInstanceIdError:
            raise
        except KafkaError as error:
            self._print_commit(offsets, error=str(error), success=False)
        else:
            self._print_commit(offsets, success=True)

    def _print_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], **outcome: Any) -> None:
        committed = [{**_fields(partition), "offset": offset.offset} for partition, offset in offsets.items()]
        print_event("offsets_committed", offsets=committed, **outcome)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        print_event("partitions_assigned", partitions=[_fields(partition) for partition in partitions])

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        print_event("partitions_revoked", partitions=[_fields(partition) for partition in partitions])


def _fields(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="verifiable-consumer",
        description="Reads a topic in a group and prints, as JSON, rebalances, records and commits.",
    )
    add_common_arguments(parser, "--consumer.config")
    parser.add_argument("--group-protocol", default="classic", metavar="NAME", help="classic or consumer")
    parser.add_argument("--group-remote-assignor", metavar="NAME", help="the broker's assignor, with consumer")
    parser.add_argument("--group-id", required=True, metavar="ID", help="the group")
    parser.add_argument("--group-instance-id", metavar="ID", help="makes it a static member")
    parser.add_argument("--session-timeout", type=int, default=30000, metavar="MS", help="with classic")
    parser.add_argument("--verbose", action="store_true", help="print every record")
    parser.add_argument("--enable-autocommit", action="store_true", help="commit automatically")
    parser.add_argument("--reset-policy", default="earliest", metavar="NAME", help="earliest, latest or none")
    parser.add_argument(
        "--assignment-strategy",
        default="org.apache.kafka.clients.consumer.RangeAssignor",
        metavar="CLASS",
        help="the assignor, with classic",
    )
    return parser


def _settings(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> dict[str, Any]:
    settings = settings_of(parser, arguments)
    if arguments.group_protocol.lower() == "consumer":
        settings["group.protocol"] = "consumer"
        if arguments.group_remote_assignor:
            settings["group.remote.assignor"] = arguments.group_remote_assignor
    else:
        settings["partition.assignment.strategy"] = arguments.assignment_strategy
        settings["session.timeout.ms"] = arguments.session_timeout
    if arguments.group_instance_id:
        settings["group.instance.id"] = arguments.group_instance_id
    settings["group.id"] = arguments.group_id
    settings["bootstrap.servers"] = arguments.bootstrap_server
    settings["enable.auto.commit"] = arguments.enable_autocommit
    settings["auto.offset.reset"] = arguments.reset_policy
    return settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the program; gives its exit code."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    try:
        consumer: Consumer[str, str] = Consumer(
            _settings(parser, parsed), key_deserializer=bytes.decode, value_deserializer=bytes.decode
        )
    except KafkaError as problem:
        parser.exit(1, f"{parser.prog}: error: {problem}\n")
    on_stop_signals(consumer.wakeup)
    return VerifiableConsumer(consumer, parsed).run()


if __name__ == "__main__":
    sys.exit(main())
