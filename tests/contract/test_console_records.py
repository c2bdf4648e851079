"""Records in the console: read from every kind of place, filtered, decoded, linked, produced and exported."""

from __future__ import annotations

import csv
import http.client
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.console.decoders import FORMS
from tests.contract.waiting import eventually
from tests.support.running_console import TIMEOUT, RunningConsole

pytest.importorskip("starlette")
pa = pytest.importorskip("pyarrow")

PEERS = ["barnabas", pytest.param("apache-kafka", marks=pytest.mark.slow)]

RECORDS = 40
BEGAN = 1_400_000_000_000


@pytest.fixture(scope="module")
def console(bootstrap_servers: str) -> Iterator[RunningConsole]:
    with RunningConsole(bootstrap_servers) as running:
        yield running.log_in()


@pytest.fixture(scope="module")
def filled(bootstrap_servers: str) -> str:
    """A topic of two partitions: records 0 to 39, the even ones in partition 0, a second apart."""
    name = "console-records"
    with AdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 2, 1, configs={"retention.ms": "-1"})])
        eventually(lambda: name in admin.describe_topics([name], raise_errors=False))
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for n in range(RECORDS):
            producer.send(
                name,
                None if n == 39 else b'{"n": %d, "user": "user-%d"}' % (n, n % 7),
                b"k-%d" % n,
                partition=n % 2,
                timestamp_ms=BEGAN + n * 1000,
                headers=[("source", b"web" if n % 3 else b"app")],
            )
    return name


def read(console: RunningConsole, topic: str, **words: Any) -> tuple[list[int], Any, str]:
    """The numbers of the records that a scan finds, in order of time; its last progress, and how it ended."""
    given = {"from": "beginning", "limit": "1000", **{name.rstrip("_"): value for name, value in words.items()}}
    events = console.stream(f"/api/topics/{topic}/scan?{urlencode(given)}")
    rows = [row for kind, rows in events if kind == "records" for row in rows]
    (ended,) = [data for kind, data in events if kind in ("done", "failed")]
    progress = [data for kind, data in events if kind == "progress"][-1]
    return sorted((row["timestamp"] - BEGAN) // 1000 for row in rows), progress, ended


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({}, range(40)),
        ({"from_": "-3"}, [34, 35, 36, 37, 38, 39]),
        ({"from_": "18"}, [36, 37, 38, 39]),
        ({"from_": "18", "partitions": "1"}, [37, 39]),
        ({"from_": f"@{BEGAN + 36_000}"}, [36, 37, 38, 39]),
        ({"from_": "end"}, []),
        ({"filter": "value.n >= 37"}, [37, 38]),
        ({"filter": 'value.user = "user-5" and header.source = "web"'}, [5, 19, 26]),
        ({"filter": "value = null"}, [39]),
        ({"filter": 'key = "k-7" or offset = 0'}, [0, 1, 7]),
        ({"filter": "value.n = 999"}, []),
    ],
)
def test_a_reading_finds_what_was_asked_for_and_all_of_it(
    console: RunningConsole, filled: str, words: dict[str, str], found: Any
) -> None:
    numbers, progress, ended = read(console, filled, **words)

    assert numbers == list(found)
    assert ended == "end"
    assert progress["matched"] == len(numbers)
    assert progress["left"] == 0


def test_a_reading_stops_at_the_number_asked_for(console: RunningConsole, filled: str) -> None:
    numbers, progress, ended = read(console, filled, limit="5")

    assert (len(numbers), progress["matched"], ended) == (5, 5, "enough")


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ({"filter": "value.n ="}, 400, "the end"),
        ({"from_": "nonsense"}, 400, "no place in a topic"),
        ({"partitions": "7"}, 404, "no partition 7"),
        ({"partitions": "x"}, 400, "partitions must be numbers"),
        ({"limit": "0"}, 400, "limit must be 1 to 1000"),
        ({"valueForm": "xml"}, 400, "no form 'xml'"),
    ],
)
def test_a_reading_that_makes_no_sense_is_refused(
    console: RunningConsole, filled: str, words: dict[str, str], status: int, says: str
) -> None:
    given = urlencode({name.rstrip("_"): value for name, value in words.items()})

    assert says in console.get(f"/api/topics/{filled}/scan?{given}", status)["message"]


def test_a_live_reading_brings_what_comes_and_ends_with_its_reader(
    console: RunningConsole, bootstrap_servers: str, topic: str
) -> None:
    for _ in range(6):  # More than may run at once: each ends when it is left.
        connection = http.client.HTTPConnection(console.address, timeout=TIMEOUT)
        try:
            connection.request(
                "GET", f"/api/topics/{topic}/scan?from=end&live=true", headers={"Cookie": console.cookie}
            )
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert b"progress" in response.readline()
            response.readline(), response.readline()
            with Producer(bootstrap_servers=bootstrap_servers) as producer:
                producer.send(topic, b"fresh")
            while b"fresh" not in (line := response.readline()):
                assert line
        finally:
            response.close()
            connection.close()
        eventually(lambda: console.ask("GET", f"/api/topics/{topic}/scan?from=end&limit=1")[0] == 200)


def test_a_link_leads_to_one_record(
    console: RunningConsole, filled: str, admin: AdminClient, new_name: Callable[[str], str]
) -> None:  # fmt: skip
    found = console.get(f"/api/topics/{filled}/records/1/3")

    assert (found["key"]["text"], found["value"]["form"]) == ("k-7", "json")
    assert json.loads(found["value"]["text"]) == {"n": 7, "user": "user-0"}
    assert found["headers"] == [
        ["source", {"form": "text", "text": "web", "bytes": 3, "isCut": False, "problem": None}]
    ]
    assert found["timestamp"] == BEGAN + 7000
    assert found["link"] == f"#/record/{filled}/1/3"
    assert f"consume {filled} -p 1 --from 3 -n 1" in found["command"]
    assert "has offsets 0 to 19, not 20" in console.get(f"/api/topics/{filled}/records/1/20", 404)["message"]
    admin.create_topics([NewTopic(empty := new_name("empty"), 1)])
    eventually(lambda: empty in admin.describe_topics([empty], raise_errors=False))
    assert console.get(f"/api/topics/{empty}/records/0/0", 404)["message"] == f"{empty}-0 has no records"
    assert console.get(f"/api/topics/{filled}/records/9/0", 404)["error"] == "UnknownTopicOrPartitionError"


def test_a_record_is_produced_and_found_again(console: RunningConsole, topic: str) -> None:
    body = {
        "key": "ff00",
        "keyForm": "hex",
        "value": "한국어",
        "valueForm": "text",
        "headers": {"a": "b"},
        "partition": 1,
    }

    sent = console.post(f"/api/topics/{topic}/records", body)

    found = console.get(f"/api/topics/{topic}/records/{sent['partition']}/{sent['offset']}")
    assert sent["partition"] == 1
    assert (found["key"]["text"], found["key"]["form"], found["value"]["text"]) == ("ff00", "hex", "한국어")
    assert found["headers"][0][1]["text"] == "b"
    tombstone = console.post(f"/api/topics/{topic}/records", {"key": "k", "keyForm": "text", "valueForm": "null"})
    there = f"/api/topics/{topic}/records/{tombstone['partition']}/{tombstone['offset']}"
    assert console.get(there)["value"]["form"] == "null"


def test_a_record_that_cannot_be_produced_is_refused_and_no_topic_is_made(console: RunningConsole, topic: str) -> None:
    body = {"key": "xyz", "keyForm": "hex", "value": "", "valueForm": "text"}

    assert "key cannot be written as hex" in console.post(f"/api/topics/{topic}/records", body, 400)["message"]
    assert "must be text, hex or null" in console.post(f"/api/topics/{topic}/records", {"keyForm": "x"}, 400)["message"]
    nowhere = {"keyForm": "null", "value": "v", "valueForm": "text"}
    assert console.post("/api/topics/never-made/records", nowhere, 404)["error"] == "UnknownTopicOrPartitionError"
    assert "never-made" not in console.get("/api/topics")["names"]


def export(console: RunningConsole, topic: str, form: str, **words: str) -> bytes:
    given = urlencode({"form": form, "from": "beginning", "limit": "100000", **words})
    status, headers, body = console.ask("GET", f"/api/topics/{topic}/export?{given}")
    assert status == 200
    assert headers["content-disposition"] == f'attachment; filename="{topic}.{form}"'
    return body


def test_records_are_exported_in_every_form(console: RunningConsole, filled: str) -> None:
    lines = [json.loads(line) for line in export(console, filled, "ndjson").decode().splitlines()]
    table = list(csv.DictReader(io.StringIO(export(console, filled, "csv", filter="value.n < 4").decode())))
    import pyarrow.parquet as pq

    columns = pq.read_table(io.BytesIO(export(console, filled, "parquet"))).to_pylist()

    assert sorted(json.loads(line["value"] or '{"n": 39}')["n"] for line in lines) == list(range(40))
    assert sorted(row["key"] for row in table) == ["k-0", "k-1", "k-2", "k-3"]
    assert sorted(row["key"] for row in columns) == sorted(b"k-%d" % n for n in range(40))
    assert {header["key"] for row in columns for header in row["headers"]} == {"source"}
    assert console.get(f"/api/topics/{filled}/export?form=doc", 400)["message"].startswith("form must be one of ndjson")


def test_an_aborted_transaction_is_shown_or_left_out(
    console: RunningConsole, bootstrap_servers: str, topic: str, new_name: Callable[[str], str]
) -> None:
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=new_name("txn")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0, timestamp_ms=BEGAN)
        producer.flush()
        producer.abort_transaction()

    assert read(console, topic)[0] == [0]
    numbers, _, ended = read(console, topic, committed="true")
    assert (numbers, ended) == ([], "end")
    assert "no record there" in console.get(f"/api/topics/{topic}/records/0/1", 404)["message"]


def test_the_newest_of_all_partitions_come_first(console: RunningConsole, filled: str) -> None:
    def newest(**words: str) -> list[int]:
        given = {"limit": "1000", **{name.rstrip("_"): value for name, value in words.items()}}
        events = console.stream(f"/api/topics/{filled}/scan?{urlencode(given)}")
        assert [data for kind, data in events if kind == "done"] == ["end"]
        return [(row["timestamp"] - BEGAN) // 1000 for kind, rows in events if kind == "records" for row in rows]

    assert newest(from_="newest:5") == [39, 38, 37, 36, 35]
    assert newest(from_="newest:5", partitions="0") == [38, 36, 34, 32, 30]
    assert newest(from_="newest:1000") == list(range(39, -1, -1))
    assert newest(from_="newest:5", filter="value.n < 36") == [35, 34, 33, 32, 31]
    for wrong in ("newest:0", "newest:1001", "newest:", "newest"):
        assert console.get(f"/api/topics/{filled}/scan?{urlencode({'from': wrong})}", 400)["message"]
    refused = console.get(f"/api/topics/{filled}/scan?{urlencode({'from': 'newest:5', 'live': 'true'})}", 400)
    assert "live shows what comes" in refused["message"]


def test_records_are_redriven_as_they_are_after_they_were_counted(
    console: RunningConsole, bootstrap_servers: str, filled: str, topic: str
) -> None:
    path, body = f"/api/topics/{filled}/redrive", {"to": topic, "filter": "value.n >= 30 or value = null"}
    counted = console.post(path, {**body, "dryRun": True})
    assert (counted["found"], counted["sent"], counted["ended"]) == (10, 10, "end")
    assert read(console, topic)[1]["scanned"] == 0

    done = console.post(path, {**body, "keepPartition": True})
    assert (done["found"], done["sent"], done["ended"], done["error"]) == (10, 10, "end", None)
    with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        found: list[Any] = []
        eventually(lambda: found.extend(consumer.poll(0.2)) or len(found) >= 10)
    assert sorted(record.key for record in found) == sorted(b"k-%d" % n for n in range(30, 40))
    for record in found:
        number = int(record.key[2:])
        assert record.partition == number % 2
        assert record.value == (None if number == 39 else b'{"n": %d, "user": "user-%d"}' % (number, number % 7))
        assert list(record.headers) == [("source", b"web" if number % 3 else b"app")]

    assert console.post(path, {**body, "limit": 4})["sent"] == 4
    says = {
        "another topic": {"to": filled}, "limit must be": {"to": topic, "limit": 0},
        "partitions must be numbers": {"to": topic, "partitions": ["x"]},
    }  # fmt: skip
    for word, wrong in says.items():
        assert word in console.post(path, wrong, 400)["message"]
    assert console.post(path, {"to": "no-such-topic"}, 404)["error"] == "UnknownTopicOrPartitionError"


def test_a_redrive_that_fails_says_how_far_it_came(
    console: RunningConsole, admin: AdminClient, filled: str, new_name: Callable[[str], str]
) -> None:
    name = new_name("small")
    admin.create_topics([NewTopic(name, 1, 1, configs={"max.message.bytes": "1"})])
    eventually(lambda: name in admin.describe_topics([name], raise_errors=False))
    done = console.post(f"/api/topics/{filled}/redrive", {"to": name, "limit": 3})
    assert (done["sent"], done["ended"]) == (0, "failed")
    assert (
        "RecordTooLarge" in done["error"]
        or "RecordBatchTooLarge" in done["error"]
        or "MessageTooLarge" in done["error"]
    )


def test_what_is_masked_leaves_the_console_in_no_way(bootstrap_servers: str, filled: str, topic: str) -> None:
    rules = [f"{filled}:value.user", f"{filled}:header.source"]
    with RunningConsole(bootstrap_servers, *(word for rule in rules for word in ("--mask", rule))) as console:
        console.log_in()
        path = f"/api/topics/{filled}"
        ways = [
            *(f"{path}/scan?{urlencode({'from': 'beginning', 'valueForm': form})}" for form in FORMS),
            *(f"{path}/export?{urlencode({'from': 'beginning', 'form': form})}" for form in ("ndjson", "csv")),
            *(f"{path}/records/0/5?{urlencode({'valueForm': form})}" for form in ("auto", "text", "hex")),
        ]
        for way in ways:
            status, _, body = console.ask("GET", way)
            text = body.decode()
            assert status == 200
            assert "k-" in text, way
            assert "user-" not in text, way
            assert b"user-1".hex() not in text, way
            assert '"web"' not in text, way
        for refused in (f"{path}/export?form=parquet", f"{path}/scan?{urlencode({'filter': 'value.user = 1'})}"):
            assert console.get(refused, 403)["error"] == "TopicAuthorizationError"
        assert console.post(f"{path}/redrive", {"to": topic}, 403)["error"] == "TopicAuthorizationError"


def test_messages_of_protobuf_are_read_by_their_descriptors(bootstrap_servers: str, topic: str, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    from tests.support.descriptor_files import descriptor_file, order

    file = descriptor_file(tmp_path)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for n in range(5):
            producer.send(topic, order(id=str(n), total={"cents": str(n * 1000)}), partition=0)
        producer.send(topic, b"\x08", partition=0)
    command = [sys.executable, "-m", "barnabas.cli.main", "consume", topic, "-b", bootstrap_servers, "-e", "-p", "0"]
    with RunningConsole(
        bootstrap_servers, "--protobuf", str(file), "--protobuf-type", f"{topic[:-1]}*:value=shop.Order"
    ) as console:
        console.log_in()
        forms = console.get(f"/api/topics/{topic}/forms")
        assert (forms["auto"]["value"], "protobuf:shop.Money" in forms["forms"]) == ("protobuf:shop.Order", True)
        found = console.get(f"/api/topics/{topic}/records/0/3")["value"]
        assert (found["form"], json.loads(found["text"])["total"]) == ("protobuf", {"cents": 3000})
        assert read(console, topic, filter="value.total.cents >= 3000")[1]["matched"] == 2
        assert console.get(f"/api/topics/{topic}/records/0/3?valueForm=hex")["value"]["form"] == "hex"
        wrong = console.get(f"/api/topics/{topic}/records/0/5")["value"]
        assert (wrong["form"], wrong["problem"][:32]) == ("hex", "these 1 bytes are no shop.Order:")
        unknown = console.get(f"/api/topics/{topic}/records/0/3?valueForm=protobuf:shop.No", status=400)
        assert "no message 'shop.No'" in unknown["message"]
        counted = console.post(
            f"/api/topics/{topic}/redrive", {"to": "console-records", "filter": "value.id = 2", "dryRun": True}
        )
        assert counted["found"] == 1
        _, _, exported = console.ask("GET", f"/api/topics/{topic}/export?form=ndjson&from=beginning&limit=3")
        assert json.loads(json.loads(exported.splitlines()[2])["value"])["id"] == 2

    done = subprocess.run(
        [*command, "-o", "json", "--value-as", "protobuf:shop.Order", "--protobuf", str(file)],
        capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip
    assert [json.loads(line)["value"]["id"] for line in done.stdout.splitlines()] == [0, 1, 2, 3, 4]
    assert done.returncode == 1
    assert f"{topic}-0@5: these 1 bytes are no shop.Order" in done.stderr
