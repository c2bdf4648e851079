"""`barnabas txn`, the real command, against running brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from barnabas import Broker, Consumer, Producer, TopicPartition
from barnabas.errors import InvalidProducerEpochError, ProducerFencedError
from tests.contract.test_cli import CommandLine
from tests.support.core_broker import SocketClient, produce
from tests.unit.broker.transactions.wire import transactional_batch


@pytest.fixture
def barnabas(bootstrap_servers: str) -> Iterator[CommandLine]:
    command_line = CommandLine(bootstrap_servers)
    yield command_line
    command_line.close()


def test_an_open_transaction_is_listed_described_and_aborted(
    barnabas: CommandLine, bootstrap_servers: str, new_name: Callable[[str], str]
) -> None:
    topic, name = new_name("txn-topic"), new_name("txn-id")
    barnabas.run("topic", "create", topic, "-p", "2")
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name, linger_ms=0) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value=b"never seen", partition=1).result(20)
        (described,) = barnabas.json("txn", "describe", name)
        (listed,) = barnabas.json("txn", "list", "--pattern", name, "--state", "Ongoing")
        of_producer = barnabas.run("txn", "list", "--producer-id", str(described["producerId"]))
        long_open = barnabas.json("txn", "list", "--longer-than", "1d")
        (seen,) = barnabas.json("txn", "producers", f"{topic}:1")
        human = barnabas.run("txn", "describe", name)
        (aborted,) = barnabas.json("txn", "abort", name)
        with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
            producer.commit_transaction(timeout=120)
    (after,) = barnabas.json("txn", "describe", name)

    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-1"])
    assert described["durationMs"] >= 0
    assert listed == {"transactionalId": name, "producerId": described["producerId"], "state": "Ongoing"}
    assert name in of_producer
    assert name not in [one["transactionalId"] for one in long_open]
    assert (seen["producerId"], seen["startOffset"]) == (described["producerId"], 0)
    assert f"{topic}-1" in human
    assert aborted["before"] == "Ongoing"
    assert aborted["producerEpoch"] > described["producerEpoch"]
    assert after["state"] in ("CompleteAbort", "Empty", "PrepareAbort")


def test_an_id_that_nobody_knows_is_not_made_by_aborting_it(
    barnabas: CommandLine, new_name: Callable[[str], str]
) -> None:
    name = new_name("nobody")
    assert name in barnabas.fails("txn", "abort", name)
    assert name in barnabas.fails("txn", "describe", name)
    assert barnabas.json("txn", "list", "--pattern", name) == []


def test_what_makes_no_sense_is_refused(barnabas: CommandLine) -> None:
    assert "'long' is no time" in barnabas.fails("txn", "list", "--longer-than", "long", code=2)
    assert "barnabas txn" in barnabas.fails("txn", code=2)


def test_a_transaction_that_hangs_is_found_and_ended() -> None:
    with Broker(config={"transaction.partition.verification.enable": False}) as broker:
        command_line = CommandLine(broker.bootstrap_servers)
        command_line.run("topic", "create", "t", "-p", "2")
        with SocketClient(broker.bootstrap_servers) as client:
            # Written after the end of its transaction, as older clients could do.
            request = produce("t", transactional_batch([b"late"], 4711, 0, 0), 1)
            request.transactional_id = "gone"
            assert client.request(request, 11).responses[0].partition_responses[0].error_code == 0
        partition = TopicPartition("t", 1)

        def stable_end() -> int:
            with Consumer(bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed") as consumer:
                return consumer.end_offsets([partition])[partition]

        assert stable_end() == 0
        assert command_line.json("txn", "find-hanging", "--older-than", "36500d") == []
        (found,) = command_line.json("txn", "find-hanging", "--older-than", "1ms")
        wrong = command_line.fails("txn", "abort-hanging", "t:1", "--start-offset", "99", code=2)
        (ended,) = command_line.json("txn", "abort-hanging", "t:1", "--start-offset", "0")
        assert (found["topic"], found["partition"], found["producerId"], found["startOffset"]) == ("t", 1, 4711, 0)
        assert "txn producers" in wrong
        assert ended["aborted"]
        assert stable_end() == 2
        assert command_line.json("txn", "find-hanging", "--older-than", "1ms") == []
        command_line.close()
