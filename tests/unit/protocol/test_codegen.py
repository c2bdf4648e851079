"""The generated files are those that the schema says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codegen import schema
from codegen.__main__ import generated, main, stale


def test_no_generated_file_is_stale() -> None:
    assert stale(generated()) == []
    assert main(["--check"]) == 0


def test_a_changed_file_is_stale(tmp_path: Path) -> None:
    same, other, missing = tmp_path / "same.py", tmp_path / "other.py", tmp_path / "missing.py"
    same.write_text("a = 1\n", encoding="utf-8")
    other.write_text("a = 1\n", encoding="utf-8")

    assert stale({same: "a = 1\n", other: "a = 2\n", missing: ""} | generated()) == [missing, other]


def test_an_unknown_argument_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--chekc"]) == 2
    assert "usage" in capsys.readouterr().err


def test_every_field_of_every_message_is_understood() -> None:
    homes = ("messages.json", "messages-metadata.json", "messages-3.9.json", "messages-share.json")
    entries = [entry for home in homes for entry in json.loads((schema.HOME / home).read_text(encoding="utf-8"))]
    messages = {message.name: message for message in schema.read_messages()}

    assert len(messages) == len({entry["name"] for entry in entries}) == 276
    for entry in entries:
        if entry["validVersions"] != "none":
            written = [field.kafka_name for field in messages[entry["name"]].structs[0].fields]
            assert written == [field["name"] for field in entry["fields"]]


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ({"type": "int32", "default": "0x7fffffff"}, "2147483647"),
        ({"type": "int32", "default": -1}, "-1"),
        ({"type": "int32", "default": "0"}, None),
        ({"type": "bool", "default": "true"}, "true"),
        ({"type": "bool", "default": False}, None),
        ({"type": "string", "default": "null"}, "null"),
        ({"type": "[]int32", "default": None}, None),
        ({"type": "string"}, None),
    ],
)
def test_defaults_as_the_schema_writes_them(field: dict[str, object], default: str | None) -> None:
    assert schema._default({"name": "Field", **field}) == default
