"""What refuses a whole request names whatever the request names: who asked finds each of its questions answered."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from barnabas.broker.security.refusals import refused
from barnabas.protocol.api import request_class
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import Plan, blank
from barnabas.protocol.message import Message
from barnabas.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.plan import plan_of

_NUMBERS = {"int16": 1 << 14, "int32": 1 << 30, "int64": 1 << 40, "string": 1 << 40, "uuid": 1 << 40}


def filled(plan: Plan, numbers: count[int]) -> Any:
    """A request with one element in each array, and values that are all different."""
    made = blank(plan)
    for field in plan.present:
        number = next(numbers)
        value: Any = None
        if field.plan is not None:
            value = filled(field.plan, numbers)
        elif field.type in _NUMBERS:
            value = {"string": f"name-{number}", "uuid": number.to_bytes(16, "big")}.get(field.type, number)
        if value is not None:
            setattr(made, field.name, [value] if field.element is not None else value)
    return made


@pytest.mark.parametrize("version", [1, 2])
def test_a_refused_marker_names_its_producer(version: int) -> None:
    """A coordinator of Apache Kafka looks results up by the producer, and forgets a marker that it does not find."""
    topics = [WritableTxnMarkerTopic("flights", [0, 3])]
    markers = [WritableTxnMarker(number, 2, transaction_result=True, topics=topics) for number in (7, 8)]
    answer: Any = refused(WriteTxnMarkersRequest(markers=markers), version, 6)
    found = [
        (one.producer_id, topic.name, partition.partition_index, partition.error_code)
        for one in answer.markers
        for topic in one.topics
        for partition in topic.partitions
    ]
    assert found == [(7, "flights", 0, 6), (7, "flights", 3, 6), (8, "flights", 0, 6), (8, "flights", 3, 6)]


#: What a request asks for, and a response that refuses it does not have.
_ASKED_FOR = {"timestamp", "leader_epoch", "num_partitions", "replication_factor", "current_leader_epoch"}


@pytest.mark.parametrize("api", list(ApiKey), ids=lambda api: api.name)
def test_what_a_request_names_in_its_elements_is_named_in_the_answer(api: ApiKey) -> None:
    try:
        low, high = request_class(api).VALID_VERSIONS
    except KeyError:
        pytest.skip("not in the schema")
    for version in range(low, high + 1):
        request: Message = filled(plan_of(request_class(api), version), count(1))
        answer = refused(request, version, 42)
        _compare(request, answer)


def _compare(asked: Any, answered: Any) -> None:
    for slot in type(answered).__slots__:
        value = getattr(answered, slot, None)
        if not isinstance(value, list) or not value or not hasattr(type(value[0]), "__slots__"):
            continue
        source = getattr(asked, slot, None)
        if not isinstance(source, list) or not source or not hasattr(type(source[0]), "__slots__"):
            continue
        for inner in set(type(value[0]).__slots__) & set(type(source[0]).__slots__) - _ASKED_FOR:
            there = getattr(value[0], inner)
            if not isinstance(there, list):
                assert there == getattr(source[0], inner), f"{type(answered).__name__}.{slot}.{inner}"
        _compare(source[0], value[0])
