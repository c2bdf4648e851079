"""Schemas of a registry in the console: subjects, their versions, and values read with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import Producer
from tests.support.running_console import RunningConsole
from tests.support.schema_registry import SchemaRegistry

pytest.importorskip("starlette")
pytest.importorskip("confluent_kafka.schema_registry")

PEERS = ["barnabas"]


def avro(*names: str) -> str:
    fields = [{"name": name, "type": "string", "default": ""} for name in names]
    return json.dumps({"type": "record", "name": "Flight", "fields": fields})


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        for subject, schema in [("b<i>", avro("carrier")), ("a", avro("x")), ("b<i>", avro("carrier", "origin"))]:
            assert running.answer("POST", ["subjects", subject, "versions"], {"schema": schema})[0] == 200
        yield running


@pytest.fixture(scope="module")
def console(bootstrap_servers: str, registry: SchemaRegistry) -> Iterator[RunningConsole]:
    with RunningConsole(bootstrap_servers, "--schema-registry", registry.url) as running:
        yield running.log_in()


def test_subjects_are_listed_by_name(console: RunningConsole) -> None:
    assert console.get("/api/session")["hasSchemas"]
    assert console.get("/api/schemas") == {"subjects": ["a", "b<i>"]}


def test_a_subject_shows_its_versions_and_what_each_has_changed(console: RunningConsole) -> None:
    found = console.get("/api/schema?subject=b%3Ci%3E")

    assert found["compatibility"] == "BACKWARD"
    newest, oldest = found["versions"]
    assert (newest["version"], newest["id"], newest["type"]) == (2, 3, "AVRO")
    assert json.loads(newest["text"])["fields"][1]["name"] == "origin"
    assert '+      "name": "origin",' in newest["changes"]
    assert oldest["changes"] == []


def test_a_subject_that_there_is_not_is_named(console: RunningConsole) -> None:
    assert "no subject 'missing'" in console.get("/api/schema?subject=missing", 400)["message"]


def test_a_console_without_a_registry_has_no_schemas(bootstrap_servers: str) -> None:
    with RunningConsole(bootstrap_servers) as running:
        console = running.log_in()
        assert not console.get("/api/session")["hasSchemas"]
        console.get("/api/schemas", 404)


def test_values_are_read_with_the_schema_of_their_id(
    console: RunningConsole, bootstrap_servers: str, topic: str, new_name: Callable[[str], str]
) -> None:
    pytest.importorskip("pyarrow")
    value = b"\0" + (1).to_bytes(4) + b"\x04UA"
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send(topic, value, partition=0).result(20)

    events: list[tuple[str, Any]] = console.stream(f"/api/topics/{topic}/scan?from=beginning")

    (record,) = [record for kind, batch in events if kind == "records" for record in batch]
    assert json.loads(record["value"]["text"]) == {"carrier": "UA"}


def test_a_schema_is_checked_registered_and_deleted_again(console: RunningConsole, registry: SchemaRegistry) -> None:
    def wanted(*names: str) -> dict[str, str]:
        return {"subject": "new-ü", "type": "AVRO", "schema": avro(*names)}

    assert console.post("/api/schema/check", wanted("a"))["isCompatible"]
    assert "new-ü" not in registry.subjects
    console.post("/api/schema/register", wanted("a"))
    refused = console.post("/api/schema/check", wanted("b"))
    assert (refused["isCompatible"], refused["problems"]) == (
        False, ["it is not BACKWARD compatible with the versions there are"],
    )  # fmt: skip
    console.post("/api/schema/register", wanted("a", "b"))
    assert [row["version"] for row in console.get("/api/schema?subject=new-%C3%BC")["versions"]] == [2, 1]

    body = {"subject": "new-ü", "confirm": "new-ü"}
    assert console.post("/api/schema/delete", {**body, "confirm": ""}, 400)["error"] == "IllegalArgumentError"
    assert console.post("/api/schema/delete", {**body, "version": 1})["versions"] == [1]
    assert [row["version"] for row in console.get("/api/schema?subject=new-%C3%BC")["versions"]] == [2]
    console.post("/api/schema/delete", body)
    assert "new-ü" not in console.get("/api/schemas")["subjects"]
    assert "new-ü" in console.post("/api/schema/delete", body, 400)["message"]


def test_a_subject_gets_a_compatibility_of_its_own(console: RunningConsole) -> None:
    console.post("/api/schema/compatibility", {"subject": "a", "compatibility": "FULL"})
    assert console.get("/api/schema?subject=a")["compatibility"] == "FULL"
    for wrong in ({"subject": "a", "compatibility": "SOME"}, {"subject": "a", "type": "XML", "schema": ""}):
        path = "compatibility" if "compatibility" in wrong else "check"
        assert "must be one of" in console.post(f"/api/schema/{path}", wrong, 400)["message"]
