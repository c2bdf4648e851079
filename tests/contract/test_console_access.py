"""ACLs, users and quotas in the console, against a broker with an authorizer, and one without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import AdminClient, Broker
from barnabas.admin import ClientQuotaEntity
from tests.support.running_console import RunningConsole

pytest.importorskip("starlette")

ACL = {
    "resourceType": "TOPIC", "resourceName": "<b>orders</b>", "patternType": "PREFIXED", "principal": "User:alice",
    "host": "*", "operation": "READ", "permission": "ALLOW",
}  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}) as running:
        yield running


@pytest.fixture(scope="module")
def console(broker: Broker) -> Iterator[RunningConsole]:
    with RunningConsole(broker.bootstrap_servers) as running:
        yield running.log_in()


def test_an_acl_is_added_shown_and_removed_alone(console: RunningConsole) -> None:
    other = {**ACL, "operation": "WRITE", "permission": "DENY", "host": "10.0.0.1", "patternType": "LITERAL"}
    done = [console.post("/api/acls", one)["command"].partition(" -b ")[0] for one in (ACL, other)]
    topic = "--topic '<b>orders</b>'"
    assert done == [
        f"barnabas acl add --principal User:alice --operation read {topic} --prefixed",
        f"barnabas acl add --principal User:alice --operation write {topic} --deny --host 10.0.0.1",
    ]
    found = console.get("/api/acls")
    assert (found["isEnabled"], found["acls"]) == (True, sorted([ACL, other], key=lambda one: one["patternType"]))
    console.post("/api/acls/delete", ACL)
    assert console.get("/api/acls")["acls"] == [other]
    assert console.post("/api/acls/delete", ACL, 404)["error"] == "ResourceNotFoundError"
    console.post("/api/acls/delete", other)
    cluster = {**ACL, "resourceType": "CLUSTER", "resourceName": "", "patternType": "LITERAL"}
    assert "--cluster" in console.post("/api/acls", cluster)["command"]
    console.post("/api/acls/delete", cluster)
    assert console.get("/api/acls")["acls"] == []


@pytest.mark.parametrize(
    "change",
    [{"operation": "ANY"}, {"permission": "MAYBE"}, {"patternType": "MATCH"}, {"resourceType": "UNKNOWN"}, {"host": 1}],
)
def test_an_acl_that_makes_no_sense_is_refused(console: RunningConsole, change: dict[str, Any]) -> None:
    answer = console.post("/api/acls", {**ACL, **change}, 400)
    assert next(iter(change)) in answer["message"]
    assert console.get("/api/acls")["acls"] == []


def test_users_are_added_and_deleted_and_no_password_comes_back(console: RunningConsole) -> None:
    user = {"user": "alice<i>", "mechanism": "SCRAM-SHA-512"}
    answer = console.post("/api/users", {**user, "password": "hunter2"})
    assert "hunter2" not in str(answer)
    found = console.get("/api/users")
    assert found["users"] == [{**user, "iterations": 4096}]
    assert "hunter2" not in str(found)
    assert "alice<i>" in console.post("/api/users/delete", {**user, "confirm": "alice"}, 400)["message"]
    console.post("/api/users/delete", {**user, "confirm": "alice<i>"})
    assert console.get("/api/users")["users"] == []
    for wrong in ({"user": ""}, {"password": ""}, {"mechanism": "PLAIN"}):
        console.post("/api/users", {**user, "password": "x", **wrong}, 400)


def test_quotas_are_set_and_removed(console: RunningConsole, broker: Broker) -> None:
    quota = {"entity": {"user": "alice", "client-id": ""}, "quota": "producer_byte_rate"}
    command = console.post("/api/quotas", {**quota, "value": "1e6"})["command"]
    assert command.startswith("barnabas quota set --user alice --client-id-default producer_byte_rate=1e6")
    with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        entity = ClientQuotaEntity.of_types({"user": "alice", "client-id": None})
        assert admin.describe_client_quotas() == {entity: {"producer_byte_rate": 1e6}}
        assert "unset" in console.post("/api/quotas", {**quota, "value": ""})["command"]
        assert admin.describe_client_quotas() == {}
    for wrong in ({"value": "-1"}, {"value": "x"}, {"value": "inf"}, {"quota": "speed"}, {"entity": {}}):
        console.post("/api/quotas", {**quota, "value": "1", **wrong}, 400)


def test_without_an_authorizer_the_screen_says_so() -> None:
    with Broker() as broker, RunningConsole(broker.bootstrap_servers) as console:
        console.log_in()
        assert console.get("/api/acls")["isEnabled"] is False
        assert console.post("/api/acls", ACL, 502)["error"] == "SecurityDisabledError"
