"""Any message of any version that can be written is read back equal."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.errors import IllegalArgumentError, IllegalTypeError, UnsupportedVersionError
from barnabas.protocol import json_view
from barnabas.protocol.api import message_class
from barnabas.protocol.codec import Field, Plan
from barnabas.protocol.message import Message
from barnabas.protocol.plan import plan_of
from codegen.schema import read_messages

MESSAGES = [message.name for message in read_messages() if message.versions[0] <= message.versions[1]]

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": TEXT,
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=20),
}


def scalar(field: Field) -> st.SearchStrategy[Any]:
    if field.plan is not None:
        return struct(field.plan)
    return SCALARS[field.type] if field.type in SCALARS else st.integers(field.low, field.high)


def value(field: Field) -> st.SearchStrategy[Any]:
    values = st.lists(scalar(field.element), max_size=2) if field.element is not None else scalar(field)
    return st.none() | values if field.nullable else values


@cache
def struct(plan: Plan) -> st.SearchStrategy[Any]:
    fields = {field.name: value(field) for field in plan.present}
    made = st.builds(plan.cls, **fields)
    return st.builds(with_unknown_tags, made, st.just(plan)) if plan.flexible else made


def with_unknown_tags(made: Any, plan: Plan) -> Any:
    made.unknown_tagged_fields = {1000 + plan.version: b"unknown"} if plan.version % 2 else None
    return made


def versions(cls: type[Message]) -> range:
    low, high = cls.VALID_VERSIONS
    return range(low, high + 1)


@pytest.mark.parametrize("name", MESSAGES)
@settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, data: st.DataObject) -> None:
    cls = message_class(name)
    version = data.draw(st.sampled_from(versions(cls)))
    message = data.draw(struct(plan_of(cls, version)))

    encoded = message.encode(version)

    assert cls.decode(encoded, version) == message
    assert cls.decode(encoded, version).encode(version) == encoded
    assert json_view.to_message(cls, version, json_view.from_message(message, version)) == message


@pytest.mark.parametrize("name", MESSAGES)
def test_every_version_writes_and_reads_the_defaults(name: str) -> None:
    cls = message_class(name)
    for version in versions(cls):
        assert cls.decode(cls().encode(version), version) == cls()


WRONG = [object(), "x", b"x", 1 << 80, -1.5, None, [object()], [None], {}, (), True]


@pytest.mark.parametrize("name", MESSAGES)
def test_a_value_of_the_wrong_kind_is_written_or_refused_by_name(name: str) -> None:
    cls = message_class(name)
    for version in (min(versions(cls)), max(versions(cls))):
        for field in (*cls.__slots__, "unknown_tagged_fields"):
            for wrong in WRONG:
                message = cls()
                setattr(message, field, wrong)
                outcome = written_or_refused(message, version)
                assert outcome == "written" or outcome.startswith(f"Cannot write {name}.{field}")


def written_or_refused(message: Message, version: int) -> str:
    try:
        message.encode(version)
    except (IllegalArgumentError, IllegalTypeError, UnsupportedVersionError) as error:
        return str(error)
    return "written"
