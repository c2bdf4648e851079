"""`barnabas spark repair` on a running broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
from barnabas.cli.main import main
from barnabas.client.producer.transactions import detached as detached_transaction
from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once import driver_steps as driver
from barnabas.spark.exactly_once import open_transactions as transactions
from barnabas.spark.exactly_once.decision import Decision, TaskTransaction

QUERY = "3e5bf6b2"


def open_transaction(servers: str, task: int) -> TaskTransaction:
    """What a task leaves behind."""
    name = f"barnabas-spark-{QUERY}-task-{task}"
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("rows", num_partitions=1)], raise_errors=False)
    producer: Producer[Any, Any] = Producer(bootstrap_servers=servers, transactional_id="-")
    identity = detached_transaction.initialize(producer, name)
    producer.begin_transaction()
    producer.send("rows", value=b"%d" % task)
    detached = detached_transaction.detach(producer)
    producer.close(0)
    assert [tuple(partition) for partition in detached.partitions] == [("rows", 0)]
    return TaskTransaction(task, name, *identity, 1, {"rows": [0]})


def decide(servers: str, *tasks: TaskTransaction) -> None:
    """What a driver that dies at once leaves behind."""
    place = driver.SinkPlace((("bootstrap.servers", servers),), "barnabas-spark-decisions", "barnabas-spark")
    dying = driver.Driver(place, QUERY)
    dying.take_over("r1")
    dying.perform(protocol.Record(Decision(7, "r1", tasks=tasks)))
    dying.close()


def seen(servers: str) -> list[bytes | None]:
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([("rows", 0)])
        end = consumer.end_offsets([("rows", 0)])
        found: list[bytes | None] = []
        while consumer.position(("rows", 0)) < next(iter(end.values())):
            found += [record.value for record in consumer.poll(timeout=0.2)]
        return found


def test_a_decided_batch_is_committed_and_what_nobody_needs_aborted(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        decide(servers, open_transaction(servers, 0))
        open_transaction(servers, 1)

        code = main(["spark", "repair", QUERY, "-b", servers, "-o", "json"])

        answer = json.loads(capsys.readouterr().out)
        assert (code, answer["decision"]) == (0, {"batch": 7, "state": "complete"})
        assert seen(servers) == [b"0"]


def test_lost_rows_are_shown_until_somebody_chooses(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        kept, lost = open_transaction(servers, 0), open_transaction(servers, 1)
        decide(servers, kept, lost)
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.fence_producers([lost.transactional_id])

        codes = [main(["spark", "repair", QUERY, "-b", servers]) for _ in range(2)]
        shown = capsys.readouterr().out
        chosen = main(["spark", "repair", QUERY, "-b", servers, "--accept-loss"])
        again = main(["spark", "repair", QUERY, "-b", servers, "--accept-loss"])

        assert (codes, chosen, again) == ([1, 1], 0, 1)
        assert [line.split()[3] for line in shown.splitlines() if "rows:0" in line] == ["committed", "lost"] * 2
        assert "has lost no rows" in capsys.readouterr().err
        assert seen(servers) == [b"0"]


def test_a_query_that_nobody_knows_is_an_error_and_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        without_topic = main(["spark", "repair", "mistyped", "-b", servers])
        said = capsys.readouterr().err
        with AdminClient(bootstrap_servers=servers) as admin:
            topics = admin.list_topics()
        decide(servers, open_transaction(servers, 0))
        mistyped = main(["spark", "repair", "mistyped", "-b", servers, "--accept-loss"])

        assert (without_topic, mistyped) == (1, 1)
        assert "there is no topic 'barnabas-spark-decisions'" in said
        assert "nothing is known of a query 'mistyped'" in capsys.readouterr().err
        assert list(topics) == []
        with AdminClient(bootstrap_servers=servers) as admin:
            assert not [name for name in admin.list_transactions() if "mistyped" in name]


def test_open_transactions_of_a_query_that_never_decided_are_ended(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        decide(servers)
        open_transaction(servers, 0)
        place = driver.SinkPlace((("bootstrap.servers", servers),), "barnabas-spark-decisions", "barnabas-spark")
        with AdminClient(bootstrap_servers=servers) as admin:
            # A dot of another prefix is no wildcard, and other queries' ids are not among them.
            assert list(transactions.list_open(admin, "barnabas.spark")) == []
            assert list(transactions.list_open(admin, f"{place.base(QUERY)}-task-")) == [f"{place.base(QUERY)}-task-0"]

        code = main(["spark", "repair", QUERY, "-b", servers])

        assert code == 0
        assert "state  complete" in capsys.readouterr().out
        with AdminClient(bootstrap_servers=servers) as admin:
            assert transactions.list_open(admin, "barnabas-spark") == {}
