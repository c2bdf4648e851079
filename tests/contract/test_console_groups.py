"""Groups, transactions, brokers and quotas in the console, against running brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import AdminClient, Broker, Consumer, Producer, TopicPartition
from barnabas.admin import ClientQuotaEntity, NewTopic
from tests.contract.waiting import eventually
from tests.support.core_broker import SocketClient, produce
from tests.support.running_console import RunningConsole
from tests.support.streams_member import StreamsMember, subtopology
from tests.unit.broker.transactions.wire import transactional_batch

pytest.importorskip("starlette")

PEERS = ["barnabas", pytest.param("apache-kafka", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def console(bootstrap_servers: str) -> Iterator[RunningConsole]:
    with RunningConsole(bootstrap_servers) as running:
        yield running.log_in()


@pytest.fixture
def group(bootstrap_servers: str, topic: str, new_name: Callable[[str], str]) -> str:
    """A group that read 3 of the 10 records of each partition of `topic`, and left. Its name wants to be markup."""
    name = f"<b>{new_name('group')}/ü?&</b>"
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(20):
            producer.send(topic, b"x", partition=number % 2, timestamp_ms=1_400_000_000_000 + number)
    with Consumer(group_id=name, bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        consumer.commit(dict.fromkeys(consumer.assignment(), 3))
    return name


def path(group: str) -> str:
    from urllib.parse import quote

    return f"/api/group?group={quote(group, safe='')}"


def test_a_group_shows_its_lag_and_its_members(
    console: RunningConsole, bootstrap_servers: str, topic: str, group: str
) -> None:
    assert group in {row["group"] for row in console.get("/api/groups")["groups"]}
    found = console.get(path(group))
    assert (found["state"], found["members"], found["lag"]) == ("EMPTY", [], 14)
    assert [(r["partition"], r["committed"], r["end"], r["lag"]) for r in found["offsets"]] == [
        (0, 3, 10, 7),
        (1, 3, 10, 7),
    ]

    with Consumer(topic, group_id=group, bootstrap_servers=bootstrap_servers, client_id="reader") as consumer:
        eventually(lambda: bool(consumer.poll(0.2)) or bool(consumer.assignment()))
        found = console.get(path(group))
        (member,) = found["members"]
        assert (member["client"], sorted(member["partitions"])) == ("reader", [f"{topic}-0", f"{topic}-1"])
        assert [row["members"] for row in found["offsets"]] == [[member["member"]]] * 2
        refused = console.post("/api/group/offsets", {"group": group, "to": "end"}, 409)
        assert refused["error"] == "GroupNotEmptyError"


@pytest.mark.parametrize(
    ("to", "offsets"),
    [("beginning", [0, 0]), ("end", [10, 10]), ("5", [5, 5]), ("500", [10, 10]), ("@1400000000009", [5, 4])],
)
def test_offsets_move_as_the_preview_says(console: RunningConsole, group: str, to: str, offsets: list[int]) -> None:
    preview = console.post("/api/group/offsets", {"group": group, "to": to, "dryRun": True})
    assert [(move["committed"], move["offset"]) for move in preview["moves"]] == [(3, offset) for offset in offsets]
    assert [row["committed"] for row in console.get(path(group))["offsets"]] == [3, 3]

    done = console.post("/api/group/offsets", {"group": group, "to": to})

    assert done["moves"] == preview["moves"]
    assert (
        done["command"]
        == f"{preview['command'].partition(' -b ')[0]} --execute -b{preview['command'].partition(' -b')[2]}"
    )
    assert [row["committed"] for row in console.get(path(group))["offsets"]] == offsets


def test_moves_that_make_no_sense_are_refused(console: RunningConsole, group: str) -> None:
    def says(**body: object) -> str:
        return str(console.post("/api/group/offsets", {"group": group, **body}, 400)["message"])

    assert "no place in a topic" in says(to="somewhere")
    assert "offsets move to beginning, end" in says(to="-100")
    assert "no committed offsets there" in says(to="end", topics=["another"])


def test_a_group_is_deleted_by_its_name(console: RunningConsole, group: str) -> None:
    assert console.post("/api/group/delete", {"group": group, "confirm": "x"}, 400)["error"] == "IllegalArgumentError"
    console.post("/api/group/delete", {"group": group, "confirm": group})

    assert group not in {row["group"] for row in console.get("/api/groups")["groups"]}


def test_an_open_transaction_is_shown_and_aborted(
    console: RunningConsole, bootstrap_servers: str, topic: str, new_name: Callable[[str], str]
) -> None:
    name = new_name("txn")
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=1)
        producer.flush()

        def row() -> dict[str, object]:
            listed = console.get("/api/transactions")["transactions"]
            found: dict[str, object] = {one["id"]: one for one in listed}[name]
            return found

        assert (row()["state"], row()["partitions"]) == ("ONGOING", [f"{topic}-1"])
        assert int(str(row()["started"])) > 0
        assert (
            console.post("/api/transactions/end", {"id": name, "confirm": ""}, 400)["error"] == "IllegalArgumentError"
        )
        console.post("/api/transactions/end", {"id": name, "confirm": name})
        eventually(lambda: row()["started"] == -1 or row()["state"] == "COMPLETE_ABORT")
        with pytest.raises(Exception, match=r"fenced|epoch|another producer"):
            producer.commit_transaction()


def test_an_id_that_nobody_used_is_not_fenced(console: RunningConsole) -> None:
    body = {"id": "no-such-id", "confirm": "no-such-id"}

    assert console.post("/api/transactions/end", body, 404)["error"] == "TransactionalIdNotFoundError"


def test_brokers_tell_their_settings_and_quotas_are_listed(console: RunningConsole, admin: AdminClient) -> None:
    admin.alter_client_quotas({ClientQuotaEntity.of(user="console"): {"producer_byte_rate": 1000.0}})
    broker = admin.describe_cluster().nodes[0].id

    rows = {row["name"]: row for row in console.get(f"/api/brokers/{broker}/settings")["settings"]}
    quotas = console.get("/api/quotas")["quotas"]

    assert "log.retention.ms" in rows
    assert all(row["value"] is None for row in rows.values() if row["sensitive"])
    assert {"entity": {"user": "console"}, "quota": "producer_byte_rate", "value": 1000.0} in quotas
    admin.alter_client_quotas({ClientQuotaEntity.of(user="console"): {"producer_byte_rate": None}})


def test_a_transaction_that_hangs_is_found_and_aborted() -> None:
    with Broker(config={"transaction.partition.verification.enable": False}) as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 2)])
        with SocketClient(broker.bootstrap_servers) as client:
            # Written after the end of its transaction, as older clients could do.
            request = produce("t", transactional_batch([b"late"], 4711, 0, 0), 1)
            request.transactional_id = "gone"
            assert client.request(request, 11).responses[0].partition_responses[0].error_code == 0
        with RunningConsole(broker.bootstrap_servers) as running:
            console = running.log_in()
            assert console.get("/api/transactions/hanging?minutes=60000000")["hanging"] == []
            assert "minutes" in console.get("/api/transactions/hanging?minutes=-1", 400)["message"]
            (row,) = console.get("/api/transactions/hanging?minutes=0")["hanging"]
            assert (row["topic"], row["partition"], row["producerId"], row["startOffset"]) == ("t", 1, 4711, 0)

            place = {"topic": "t", "partition": 1, "confirm": "t-1"}
            path = "/api/transactions/abort-hanging"
            assert "offset 9" in console.post(path, {**place, "startOffset": 9}, 400)["message"]
            assert "confirm" in console.post(path, {**place, "startOffset": 0, "confirm": "t-0"}, 400)["message"]
            console.post(path, {**place, "startOffset": 0})
            assert console.get("/api/transactions/hanging?minutes=0")["hanging"] == []


@pytest.mark.slow  # samples come every five seconds
def test_a_group_shows_for_how_long_its_oldest_record_has_waited(
    console: RunningConsole, bootstrap_servers: str, topic: str, group: str
) -> None:
    began = time.time() * 1000

    def row() -> dict[str, Any]:
        found: dict[str, Any] = console.events("lags", "lags")[group]
        return found

    eventually(lambda: group in console.events("lags", "lags"))
    # Nobody looked when these came: they wait since then at least.
    assert row()["delay"]["isAtLeast"]
    with Consumer(group_id=group, bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        consumer.commit({TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 10})
    eventually(lambda: row()["lag"] == 0)
    assert row()["delay"] == {"ms": 0, "isAtLeast": False}
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send(topic, b"new", partition=1)
    eventually(lambda: row()["lag"] == 1)

    delays = {found["partition"]: found["delay"] for found in console.get(path(group))["offsets"]}

    assert delays[0] == {"ms": 0, "isAtLeast": False}
    assert not delays[1]["isAtLeast"]
    assert 0 <= delays[1]["ms"] <= time.time() * 1000 - began
    assert console.get(path(group))["history"][-1][2] is not None


def test_a_streams_group_shows_what_its_tasks_read(
    console: RunningConsole, bootstrap_servers: str, topic: str, new_name: Callable[[str], str]
) -> None:
    name = new_name("streams")
    with AdminClient(bootstrap_servers=bootstrap_servers) as admin, SocketClient(bootstrap_servers) as client:
        admin.list_consumer_group_offsets(name)
        member = StreamsMember(lambda said: client.request(said, 0), name, (subtopology("0", topic),), group=name)
        eventually(lambda: not member.heartbeat().error_code and bool(member.active))
        found = console.get(path(name))
        assert (found["type"], found["state"], found["protocol"]) == ("STREAMS", "STABLE", "topology 0")
        (shown,) = found["members"]
        assert shown["partitions"] == [f"{topic}-0", f"{topic}-1"]
        member.leave()
