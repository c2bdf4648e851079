"""People who log in to the console: each sees and does what the cluster lets this person see and do, and no more.

By class: every route of the server stands in a table here, and a person without rights asks all of them after one who
may do everything has done so, while that one's page is open.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.admin import (
    AclBinding,
    AclOperation,
    ClientQuotaEntity,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from barnabas.network.security.oauth_bearer_token import unsecured_jwt
from tests.contract.waiting import eventually
from tests.peers.secure_kafka import Certificates
from tests.support.people_cluster import (
    LOGIN,
    PEOPLE,
    Cluster,
    add_people,
    barnabas_cluster,
    kafka_cluster,
    password,
)
from tests.support.running_console import RunningConsole, Visitor

pytest.importorskip("starlette")
pytest.importorskip("pyarrow")


def fill(inner: str) -> None:
    """Two topics, groups and transactional ids, of which `reader` may see one each."""
    names = [f"{MARK}-topic", "open-topic"]
    with AdminClient(bootstrap_servers=inner, default_api_timeout_ms=30_000) as admin:
        add_people(admin)
        hidden = UserScramCredentialUpsertion(f"{MARK}-user", "x", ScramMechanism.SCRAM_SHA_256, iterations=4096)
        admin.alter_user_scram_credentials([hidden])
        admin.create_topics([NewTopic(name, 1) for name in [*names, f"{MARK}-app-store-changelog"]])
        admin.create_acls([
            AclBinding(ResourceType.TOPIC, "open-topic", "User:reader", AclOperation.READ),
            AclBinding(ResourceType.GROUP, "open-group", "User:reader", AclOperation.READ),
            AclBinding(ResourceType.TOPIC, f"{MARK}-acl", f"User:{MARK}", AclOperation.READ),
        ])  # fmt: skip
        quota = ClientQuotaEntity.of_types({"user": f"{MARK}-quota"})
        admin.alter_client_quotas({quota: {"producer_byte_rate": 5000.0}})
    with Producer(bootstrap_servers=inner) as producer:
        for name in names:
            for _ in range(5):
                producer.send(name, f"{MARK}-value".encode(), f"{MARK}-key".encode())
    for name, group in zip(names, (f"{MARK}-group", "open-group"), strict=True):
        with Consumer(group_id=group, bootstrap_servers=inner) as consumer:
            consumer.assign([(name, 0)])
            consumer.commit(dict.fromkeys(consumer.assignment(), 1))
    with Consumer(group_id=f"{MARK}-app", bootstrap_servers=inner) as consumer:
        consumer.assign([(f"{MARK}-topic", 0)])
        consumer.commit(dict.fromkeys(consumer.assignment(), 1))
    with Producer(bootstrap_servers=inner, transactional_id=f"{MARK}-txn") as producer:
        producer.init_transactions()


def checkpoint(folder: Path, topic: str) -> None:
    """What Spark keeps of a query that has read a topic."""
    for name, text in (("offsets", f'v1\n{{}}\n{{"{topic}": {{"0": 5}}}}'), ("commits", "v1\n{}")):
        (folder / name).mkdir(parents=True)
        (folder / name / "0").write_text(text)


TOPOLOGIES = """
from barnabas.streams import StreamsBuilder
builder = StreamsBuilder()
builder.stream("hidden-topic").to("hidden-sink")
hidden = builder.build()
builder = StreamsBuilder()
builder.stream("open-topic").to("open-topic")
shown = builder.build()
"""


@pytest.fixture(scope="module", params=["barnabas", "apache-kafka"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = kafka_cluster() if request.param == "apache-kafka" else barnabas_cluster(tmp_path_factory.mktemp("login"))
    with running as found:
        fill(found.inner)
        yield found


@pytest.fixture(scope="module")
def console(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("console")
    for name, topic in ((f"{MARK}-query", f"{MARK}-topic"), ("open-query", "open-topic")):
        checkpoint(folder / "checkpoints" / name, topic)
    (folder / "drawn_for_people.py").write_text(TOPOLOGIES)
    options = ["--checkpoint", str(folder / "checkpoints"), "--change-log", str(folder / "changes.jsonl"), "-v"]
    options += [
        "--topology",
        f"{MARK}-drawn=drawn_for_people:hidden",
        "--topology",
        "open-drawn=drawn_for_people:shown",
    ]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        started = RunningConsole(cluster.servers, *LOGIN, *options)
    with started as running:
        yield running
        log = running.log()
    # At last, after all that the tests have done: no secret is anywhere that the console wrote to.
    for user in PEOPLE:
        assert "hunter2" not in log
        assert "hunter2" not in (folder / "changes.jsonl").read_text()
        assert password(user) not in log


def visitor(console: RunningConsole, user: str, mechanism: str = "SCRAM-SHA-512") -> Visitor:
    return Visitor(console.address).log_in_as(user, password(user), mechanism)


@pytest.fixture(scope="module")
def root(console: RunningConsole) -> Visitor:
    return visitor(console, "root")


@pytest.fixture(scope="module")
def reader(console: RunningConsole) -> Visitor:
    return visitor(console, "reader")


@pytest.fixture(scope="module")
def stranger(console: RunningConsole) -> Visitor:
    return visitor(console, "stranger")


MARK = "hidden"  # in every name that only some may know
LISTED, REFUSED = "listed", "refused"
HIDDEN = f"/api/topics/{MARK}-topic"
#: Route → the path that is asked for, and what a person without rights gets: a list that has nothing hidden, or a
#: refusal of the cluster's, or what the cluster says of what is not there (it does not tell such a person apart).
READS = {
    "/api/session": ("/api/session", LISTED),
    "/api/changes": ("/api/changes", LISTED),
    "/api/topics": ("/api/topics", LISTED),
    "/api/sizes": ("/api/sizes", LISTED),
    "/api/topics/{topic}": (HIDDEN, REFUSED),
    "/api/topics/{topic}/settings": (f"{HIDDEN}/settings", REFUSED),
    "/api/topics/{topic}/scan": (f"{HIDDEN}/scan?from=beginning", REFUSED),
    "/api/topics/{topic}/forms": (f"{HIDDEN}/forms", REFUSED),
    "/api/topics/{topic}/export": (f"{HIDDEN}/export?from=beginning", REFUSED),
    "/api/topics/{topic}/records/{partition:int}/{offset:int}": (f"{HIDDEN}/records/0/0", REFUSED),
    "/api/groups": ("/api/groups", LISTED),
    "/api/group": (f"/api/group?group={MARK}-group", REFUSED),
    "/api/transactions": ("/api/transactions", LISTED),
    "/api/transactions/hanging": ("/api/transactions/hanging?minutes=0", LISTED),
    "/api/brokers/{broker}/settings": ("/api/brokers/1/settings", REFUSED),
    "/api/quotas": ("/api/quotas", REFUSED),
    "/api/acls": ("/api/acls", REFUSED),
    "/api/users": ("/api/users", REFUSED),
    "/api/spark": ("/api/spark", LISTED),
    "/api/spark/query": (f"/api/spark/query?query={MARK}-query", REFUSED),
    "/api/streams": ("/api/streams", LISTED),
    "/api/streams/topology": (f"/api/streams/topology?application={MARK}-drawn", REFUSED),
}
#: Those that are no documents; each has a test of its own.
OTHERS = {"/api/events", "/api/{path:path}", "/login", ""}
ACL = {
    "resourceType": "TOPIC", "resourceName": f"{MARK}-acl", "patternType": "LITERAL", "principal": f"User:{MARK}",
    "host": "*", "operation": "READ", "permission": "ALLOW",
}  # fmt: skip
USER = {"user": f"{MARK}-user", "mechanism": "SCRAM-SHA-256"}
#: Route → path and body.
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "/api/topics": ("/api/topics", {"name": f"{MARK}-new", "partitions": 1, "replicationFactor": 1}),
    "/api/topics/{topic}/delete": (f"{HIDDEN}/delete", {"confirm": f"{MARK}-topic"}),
    "/api/topics/{topic}/settings": (f"{HIDDEN}/settings", {"set": {"retention.ms": "5"}}),
    "/api/topics/{topic}/partitions": (f"{HIDDEN}/partitions", {"total": 3}),
    "/api/topics/{topic}/empty": (f"{HIDDEN}/empty", {"confirm": f"{MARK}-topic"}),
    "/api/topics/{topic}/records": (
        f"{HIDDEN}/records", {"key": "k", "keyForm": "text", "value": "v", "valueForm": "text"},
    ),
    "/api/topics/{topic}/redrive": (f"{HIDDEN}/redrive", {"to": "open-topic"}),
    "/api/group/offsets": ("/api/group/offsets", {"group": f"{MARK}-group", "to": "end"}),
    "/api/group/offsets/forget": ("/api/group/offsets/forget", {"group": f"{MARK}-group", "topics": [f"{MARK}-topic"]}),
    "/api/group/members/remove": (
        "/api/group/members/remove", {"group": f"{MARK}-group", "members": ["m"], "confirm": f"{MARK}-group"},
    ),
    "/api/group/delete": ("/api/group/delete", {"group": f"{MARK}-group", "confirm": f"{MARK}-group"}),
    "/api/transactions/end": ("/api/transactions/end", {"id": f"{MARK}-txn", "confirm": f"{MARK}-txn"}),
    "/api/transactions/abort-hanging": (
        "/api/transactions/abort-hanging",
        {"topic": f"{MARK}-topic", "partition": 0, "startOffset": 0, "confirm": f"{MARK}-topic-0"},
    ),
    "/api/brokers/{broker}/settings": ("/api/brokers/1/settings", {"set": {"log.cleaner.threads": "2"}}),
    "/api/acls": ("/api/acls", {**ACL, "principal": "User:stranger"}),
    "/api/acls/delete": ("/api/acls/delete", ACL),
    "/api/users": ("/api/users", {**USER, "password": "x"}),
    "/api/users/delete": ("/api/users/delete", {**USER, "confirm": f"{MARK}-user"}),
    "/api/quotas": (
        "/api/quotas", {"entity": {"user": f"{MARK}-quota"}, "quota": "producer_byte_rate", "value": ""},
    ),
}  # fmt: skip
SESSION = {"/api/login", "/api/logout"}


def routes() -> Iterator[tuple[str, str]]:
    """All routes of a console with logins, by method."""
    from barnabas.console.server import Console
    from barnabas.console.settings import ConsoleSettings

    clients = {section: {"bootstrap.servers": "localhost:1"} for section in ("admin", "consumer", "producer")}
    console = Console(ConsoleSettings(clients, (), login=("PLAIN",), schema_registry=None))
    try:
        for route in console._routes():
            for method in getattr(route, "methods", None) or {"GET"}:
                if method != "HEAD":
                    yield method, route.path  # type: ignore[attr-defined]
    finally:
        console._socket.close()


def test_every_route_of_the_server_stands_in_the_tables_of_this_test() -> None:
    found = set(routes())

    assert {path for method, path in found if method == "GET"} == READS.keys() | OTHERS
    assert {path for method, path in found if method == "POST"} == CHANGES.keys() | SESSION | {"/api/{path:path}"}


@pytest.mark.parametrize("route", sorted(READS))
def test_who_may_do_everything_sees_it(root: Visitor, route: str) -> None:
    path, _ = READS[route]
    status, _, body = root.ask("GET", path)

    assert status == 200, body
    if route not in ("/api/session", "/api/changes", "/api/transactions/hanging",
                     "/api/brokers/{broker}/settings", "/api/topics/{topic}/settings",
                     "/api/topics/{topic}/forms"):  # fmt: skip
        assert MARK.encode() in body, "else what follows shows nothing"


@pytest.mark.parametrize("route", sorted(READS))
def test_a_person_without_rights_is_told_what_the_cluster_tells_and_nothing_of_anothers(
    root: Visitor, stranger: Visitor, route: str
) -> None:
    path, expected = READS[route]
    root.ask("GET", path)
    status, _, body = stranger.ask("GET", path)

    assert f"{MARK}-value".encode() not in body
    if expected == LISTED:
        assert status == 200, body
        assert MARK.encode() not in body
    else:
        document = json.loads(body)
        assert (status, sorted(document)) == (403, ["error", "message", "status"]), body
        assert document["status"] == status
        assert document["error"].endswith("AuthorizationError")


@pytest.mark.parametrize("route", sorted(CHANGES))
def test_a_person_without_rights_changes_nothing(root: Visitor, stranger: Visitor, route: str) -> None:
    path, body = CHANGES[route]
    before = everything(root)
    answer = stranger.post(path, body, 403)

    assert answer["error"].endswith("AuthorizationError")
    assert everything(root) == before


def everything(root: Visitor) -> dict[str, Any]:
    """All that there is, without what changes by itself."""
    paths = [path for path, _ in READS.values() if not re.search("scan|export|changes|session|login|hanging", path)]
    return {path: root.get(path) for path in paths}


def test_events_have_what_the_person_may_see(root: Visitor, reader: Visitor, stranger: Visitor) -> None:
    kinds = "overview,rates,lags,reads,trouble"
    seen = {}

    def watch() -> None:
        with suppress(AssertionError, OSError, http.client.HTTPException):
            root.stream(f"/api/events?kinds={kinds}")

    threading.Thread(target=watch, daemon=True).start()
    for name, one in (("root", root), ("reader", reader), ("stranger", stranger)):
        # The first looks are at a part of the cluster only.
        eventually(lambda one=one: one.events(kinds, "overview")["history"])
        seen[name] = {kind: one.events(kinds, kind) for kind in ("overview", "lags")}

    assert MARK in json.dumps(seen["root"])
    assert MARK not in json.dumps(seen["reader"])
    assert MARK not in json.dumps(seen["stranger"])
    assert {group: lag["lag"] for group, lag in seen["reader"]["lags"].items()} == {"open-group": 4}
    assert (seen["reader"]["overview"]["topics"], seen["stranger"]["overview"]["topics"]) == (1, 0)
    assert seen["stranger"]["lags"] == {}


def test_a_person_sees_what_the_cluster_tells_this_person(reader: Visitor, cluster: Cluster) -> None:
    own = {
        "bootstrap.servers": cluster.servers, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": "reader", "sasl.password": password("reader"),
    }  # fmt: skip
    with AdminClient(own, default_api_timeout_ms=30_000) as admin:
        topics, groups = set(admin.list_topics(include_internal=True)), set(admin.list_groups())

    assert set(reader.get("/api/topics")["names"]) == topics == {"open-topic"}
    assert {row["group"] for row in reader.get("/api/groups")["groups"]} == groups == {"open-group"}
    assert reader.get("/api/group?group=open-group")["lag"] == 4
    assert [row["name"] for row in reader.get("/api/spark")["queries"]] == ["open-query"]
    assert [row["application"] for row in reader.get("/api/streams")["applications"]] == ["open-drawn"]
    scanned = dict(reader.stream("/api/topics/open-topic/scan?from=beginning"))
    assert (len(scanned["records"]), scanned["done"]) == (5, "end")
    produced = {"key": "k", "keyForm": "text", "value": "v", "valueForm": "text"}
    assert reader.post("/api/topics/open-topic/records", produced, 403)["error"].endswith("AuthorizationError")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_a_user_logs_in_by_what_the_cluster_offers(console: RunningConsole, mechanism: str) -> None:
    told = Visitor(console.address).get("/api/session")
    one = visitor(console, "reader", mechanism)

    assert told == {"mechanisms": ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"]}
    assert one.get("/api/session")["user"] == "reader"
    assert one.get("/api/topics")["names"] == ["open-topic"]


def test_a_token_logs_in_the_one_it_is_for(console: RunningConsole) -> None:
    now = int(time.time())
    token = unsecured_jwt({"sub": "reader", "iat": now, "exp": now + 600})
    one = Visitor(console.address).log_in_as("mallory", token, "OAUTHBEARER")

    assert one.get("/api/session")["user"] == "reader"
    assert one.get("/api/topics")["names"] == ["open-topic"]
    forged = unsecured_jwt({"sub": "root", "iat": now - 9000, "exp": now - 6000})
    Visitor(console.address).log_in_as("", forged, "OAUTHBEARER", 401)


def test_a_wrong_password_is_refused_and_too_many_are_not_tried(console: RunningConsole) -> None:
    document = {"user": "guessed", "mechanism": "PLAIN", "password": "hunter2"}
    headers = {"Content-Type": "application/json", "Origin": console.url}
    answers = [Visitor(console.address).ask("POST", "/api/login", json.dumps(document), headers) for _ in range(12)]

    assert [status for status, _, _ in answers] == [401] * 10 + [429] * 2
    for _, given, body in answers:
        assert "set-cookie" not in given
        assert b"hunter2" not in body
    assert 0 < int(answers[-1][1]["retry-after"]) <= 30
    assert visitor(console, "reader").get("/api/session")["user"] == "reader"


def sockets(console: RunningConsole) -> int:
    """How many connections the console has."""
    folder = Path(f"/proc/{console.process.pid}/fd")
    with suppress(OSError):
        return sum(os.readlink(each).startswith("socket:") for each in folder.iterdir())
    return 10_000


def test_logging_out_ends_the_session_its_streams_and_its_clients(console: RunningConsole) -> None:
    before = sockets(console)
    one = visitor(console, "reader")
    has_begun = threading.Event()
    stream = threading.Thread(target=one.stream, args=("/api/events?kinds=overview", has_begun.set))
    stream.start()
    assert has_begun.wait(30)
    one.get("/api/topics")
    eventually(lambda: sockets(console) > before + 1)
    status, headers, _ = one.ask(
        "POST", "/api/logout", "{}", {"Content-Type": "application/json", "Origin": console.url}
    )

    assert status == 200
    assert "max-age=0" in headers["set-cookie"].lower()
    stream.join(30)
    assert not stream.is_alive()
    assert one.get("/api/topics", 401)["error"] == "NotLoggedIn"
    eventually(lambda: sockets(console) <= before)


def test_a_new_login_ends_the_one_before_it_and_has_another_secret(console: RunningConsole) -> None:
    one = visitor(console, "reader")
    first = one.cookie
    one.log_in_as("stranger", password("stranger"))

    assert one.cookie != first
    assert one.get("/api/session")["user"] == "stranger"
    one.cookie = first
    assert one.get("/api/changes", 401)["error"] == "NotLoggedIn"


def test_whom_the_cluster_lets_in_no_more_has_to_log_in_again(console: RunningConsole, cluster: Cluster) -> None:
    one = visitor(console, "leaver", "SCRAM-SHA-256")
    assert one.get("/api/topics")["names"] == []
    with AdminClient(bootstrap_servers=cluster.inner) as admin:
        admin.alter_user_scram_credentials([UserScramCredentialDeletion("leaver", ScramMechanism.SCRAM_SHA_256)])

    # The cluster asks for the password again after a while (KIP-368).
    eventually(lambda: one.ask("GET", "/api/topics")[0] == 401)
    assert one.get("/api/changes", 401)["error"] == "NotLoggedIn"


def test_changes_name_the_person_who_sees_only_own_ones(root: Visitor, reader: Visitor) -> None:
    root.post(f"{HIDDEN}/settings", {"set": {"retention.ms": "86400000"}})
    reader.post("/api/topics/open-topic/settings", {"set": {"retention.ms": "5"}}, 403)

    [newest, *_] = root.get("/api/changes")["changes"]
    assert (newest["user"], newest["path"], newest["status"]) == ("root", f"{HIDDEN}/settings", 200)
    assert {row["user"] for row in reader.get("/api/changes")["changes"]} == {"reader"}


def test_one_person_reads_so_much_at_once_and_keeps_no_other_from_reading(root: Visitor, reader: Visitor) -> None:
    path = "/api/topics/open-topic/scan?live=true"
    opened = []
    for _ in range(10):
        connection = http.client.HTTPConnection(root.address, timeout=60)
        connection.request("GET", path, headers={"Cookie": root.cookie})
        opened.append(connection)
    answers = [connection.getresponse() for connection in opened]
    refused = [one for one in answers if one.status != 200 or b"failed" in one.readline() + one.readline()]
    try:
        assert len(refused) == 6
        assert dict(reader.stream("/api/topics/open-topic/scan?from=beginning"))["done"] == "end"
    finally:
        for connection in opened:
            connection.close()


def test_a_read_only_console_changes_nothing_for_those_who_may(cluster: Cluster) -> None:
    with RunningConsole(cluster.servers, *LOGIN, "--read-only") as running:
        one = visitor(running, "root")
        assert one.get("/api/session")["readOnly"]
        for path, body in CHANGES.values():
            assert one.post(path, body, 403)["error"] == "ReadOnly"
        one.post("/api/logout", {})


def test_by_tls_the_cookie_is_of_this_host_alone(cluster: Cluster, tmp_path: Path) -> None:
    certificates = Certificates.make(tmp_path)
    options = ["--tls-certificate", str(certificates.broker), "--tls-key", str(certificates.broker)]
    with RunningConsole(cluster.servers, *LOGIN, *options) as running:
        assert running.link.startswith("https://")
        context = ssl.create_default_context(cafile=str(certificates.authority))
        port = int(running.address.rpartition(":")[2])
        connection = http.client.HTTPSConnection("localhost", port, timeout=60, context=context)
        document = {"user": "reader", "mechanism": "PLAIN", "password": password("reader")}
        headers = {"Content-Type": "application/json", "Origin": f"https://localhost:{port}"}
        connection.request("POST", "/api/login", json.dumps(document), headers)
        response = connection.getresponse()
        name, _, rest = (response.getheader("set-cookie") or "").partition("=")
        connection.close()

    assert (response.status, name) == (200, f"__Host-barnabas-console-{port}")
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in rest.split(";")}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--login"], "security.protocol is PLAINTEXT"),
        ([*LOGIN, "-X", "sasl.mechanism=GSSAPI"], "the cluster offers PLAIN"),
        ([*LOGIN, "-X", "sasl.username=a", "-X", "sasl.password=hunter2"], "take out sasl.password, sasl.username"),
        ([*LOGIN, "--listen", "0.0.0.0:0"], "--tls-certificate"),
    ],
)
def test_what_does_not_go_with_logins_is_said_at_the_start(cluster: Cluster, options: list[str], says: str) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "console", "-b", cluster.servers, "--listen", "127.0.0.1:0"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "hunter2" not in done.stderr


def test_a_trusted_proxy_says_who_asks_and_that_it_speaks_tls(cluster: Cluster) -> None:
    name = "console.example"
    options = ["--allowed-host", name, "--trusted-proxy", "127.0.0.1"]

    def answer(running: RunningConsole, address: str, user: str, secret: str) -> tuple[int, dict[str, str]]:
        document = {"user": user, "mechanism": "PLAIN", "password": secret}
        headers = {
            "Content-Type": "application/json", "Host": name, "Origin": f"https://{name}",
            "X-Forwarded-For": f"198.51.100.7, {address}", "X-Forwarded-Proto": "https",
        }  # fmt: skip
        return Visitor(running.address).ask("POST", "/api/login", json.dumps(document), headers)[:2]

    with RunningConsole(cluster.servers, *LOGIN, *options) as running:
        for number in range(20):
            assert answer(running, "203.0.113.5", f"guessed-{number}", "x")[0] == 401
        assert answer(running, "203.0.113.5", "guessed-20", "x")[0] == 429
        status, given = answer(running, "203.0.113.6", "reader", password("reader"))
        assert status == 200
        assert "Secure" in [part.strip() for part in given["set-cookie"].split(";")]
    with RunningConsole(cluster.servers, *LOGIN, *options[:2]) as running:
        status, given = answer(running, "203.0.113.6", "reader", password("reader"))
        assert status == 200
        assert "Secure" not in [part.strip() for part in given["set-cookie"].split(";")]
