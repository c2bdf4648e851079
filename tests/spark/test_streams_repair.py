"""An application whose batch was decided and in part lost: `barnabas spark repair` has it write what is missing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from barnabas import Producer
from barnabas.cli.main import main
from barnabas.spark.exactly_once import open_transactions
from barnabas.spark.exactly_once.decision import TransactionsLostError
from barnabas.streams import KafkaStreams, Serdes, State, StreamsBuilder, Topology
from tests.spark.test_kafka_streams import LONGEST, committed, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
KEYS = "abcdefgh"


def send(servers: str, topic: str, rounds: int) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(rounds):
            for key in KEYS:
                producer.send(topic, b"", key=key.encode())


def counts(source: str, target: str, *, repartitioned: bool) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(source, key=Serdes.string(), value=Serdes.string())
    grouped = stream.group_by(lambda key, value: key) if repartitioned else stream.group_by_key()
    grouped.count(store="counts").to_stream().map_values(str).to(target)
    return builder.build()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("choice", "is_within", "which"),
    [
        pytest.param("--rewrite-lost", False, 0, id="rewritten"),
        pytest.param("--accept-loss", False, 0, id="accepted"),
        pytest.param("--rewrite-lost", True, 0, id="rewritten, what others have read within the batch"),
        pytest.param("--rewrite-lost", True, -1, id="rewritten, who has read within the batch"),
    ],
)
def test_an_application_goes_on_after_a_repair_with_state_and_output_that_agree(
    spark: SparkSession, servers: str, new_topic: Callable[[int], str], checkpoint: str,
    monkeypatch: pytest.MonkeyPatch, choice: str, is_within: bool, which: int,
) -> None:  # fmt: skip
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    name, tasks = f"repaired-{source}", 2 * PARTITIONS if is_within else PARTITIONS
    own = {"repartition.within.batch": is_within, "repartition.purge.interval.ms": 3_600_000}
    config = {**settings(servers, name, Path(checkpoint)), **own}
    lost: list[str] = []
    end_all: Any = open_transactions.end_all

    def ending(admin: Any, transactions: Any, commit: bool) -> Any:
        """Let one task's transaction be aborted after the decision, as it is when nothing runs for too long."""
        if commit and arms and not lost and len(transactions) == tasks:
            lost.append(transactions[which][0])
            admin.fence_producers(lost)
        return end_all(admin, transactions, commit)

    arms: list[bool] = []
    monkeypatch.setattr(open_transactions, "end_all", ending)

    def application() -> KafkaStreams:
        topology = counts(source, target, repartitioned=is_within)
        return KafkaStreams(topology, config, spark=spark, checkpoint_location=checkpoint)

    def wait(streams: KafkaStreams, total: int) -> None:
        deadline = time.monotonic() + LONGEST
        while len(committed(servers, target, PARTITIONS)) < total and time.monotonic() < deadline:
            assert streams.exception is None, streams.exception
            time.sleep(0.2)

    send(servers, source, 1)
    with application() as first:
        wait(first, len(KEYS))
    send(servers, source, 1)
    arms.append(True)
    with application() as second:
        assert second.wait_for(State.ERROR, timeout=LONGEST)
        assert isinstance(second.exception, TransactionsLostError), second.exception
        query = str(second.query.id)
    with application() as third:
        assert third.wait_for(State.ERROR, timeout=LONGEST), "as long as no one has chosen"

    assert lost
    there = len(committed(servers, target, PARTITIONS))
    if is_within and which == 0:
        assert there == 2 * len(KEYS), "those who have read it have written"
    else:
        assert len(KEYS) < there < 2 * len(KEYS), "one task's rows are there, the other's not"
    assert main(["spark", "repair", query, choice, "-b", servers]) == 0
    send(servers, source, 1)
    total = 3 * len(KEYS) - (2 * len(KEYS) - there if choice == "--accept-loss" else 0)
    with application() as fourth:
        wait(fourth, total)

    outputs, logged = committed(servers, target, PARTITIONS), committed(servers, f"{name}-counts-changelog", PARTITIONS)
    by_key: dict[bytes, list[int]] = {}
    for record in outputs:
        by_key.setdefault(record.key, []).append(int(record.value))
    assert len(outputs) == total
    assert Counter(len(counts) for counts in by_key.values()).keys() <= ({3} if choice == "--rewrite-lost" else {2, 3})
    assert all(counts == [*range(1, len(counts) + 1)] for counts in by_key.values()), by_key
    newest = {record.key: int.from_bytes(record.value, "big") for record in logged}
    assert newest == {key: counts[-1] for key, counts in by_key.items()}
    if is_within:
        between = f"{name}-counts-repartition"
        assert len(committed(servers, between, PARTITIONS)) == 3 * len(KEYS), "the topic holds each record once"
