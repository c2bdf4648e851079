"""Responses that refuse what a request names, made of the request: names and numbers stay, each error is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.protocol.api import response_class
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import blank
from barnabas.protocol.encoded_elements import EncodedElements
from barnabas.protocol.framing import encode_elements
from barnabas.protocol.message import Message
from barnabas.protocol.plan import plan_of

if TYPE_CHECKING:
    from barnabas.protocol.codec import Field, Plan
    from barnabas.protocol.message import Struct

#: ElectLeaders and AlterPartitionReassignments say it of the whole and of each partition.
_TOLD_TWICE = frozenset({ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS})
#: What a request names, and a response that refuses it does not.
_NOT_REPEATED = frozenset({"protocol_type", "protocol_name"})
#: What names an element by several parts, so that a client knows which one was refused.
_NAMES_BY_PARTS = frozenset({"entity"})
_CODES = frozenset({"error_code", "partition_error_code"})
#: What stands where there is nothing, other than the protocol's default.
_NOTHING = {
    "base_offset": -1, "offset": -1, "timestamp": -1, "high_watermark": -1, "end_offset": -1, "leader_epoch": -1,
    "low_watermark": -1, "log_append_time_ms": -1, "log_start_offset": -1, "last_stable_offset": -1,
    "committed_offset": -1, "producer_id": -1, "producer_epoch": -1, "generation_id": -1, "member_epoch": -1,
    "node_id": -1, "port": -1, "throttle_time_ms": 0, "num_partitions": -1, "replication_factor": -1,
}  # fmt: skip
#: What names an element of a response, where it stands for something new at the top: the producer of a marker.
_NAMES = frozenset({"producer_id"})
#: A field of a response → those of a request that it repeats, where they have other names.
_SOURCES = {
    "partition_index": ("partition",),
    "group_id": ("group",),
    "user": ("name",),
    "filter_results": ("filters",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
}


def refused(request: Message, version: int, code: int, message: str | None = None) -> Message:
    """Return the response that refuses all of a request."""
    plan = plan_of(response_class(request.API_KEY), version)
    made = _made(plan, request, code, message, top=True)
    assert isinstance(made, Message)
    return made


def refused_elements(key: int, version: int, path: str, asked: list[Any], code: int) -> list[Struct]:
    """Return elements of a response's array, which refuse these of a request; `path` is the array's name."""
    plan = plan_of(response_class(key), version)
    field = next(field for field in plan.present if field.name == path)
    return [_element(field, one, code, None) for one in asked]


def joined(response: Message, path: str, elements: list[Any], version: int) -> None:
    """Let more elements follow in an array of a response, be it encoded already or not."""
    there = getattr(response, path)
    if isinstance(there, EncodedElements):
        there.add(encode_elements(elements, type(response), path, version), len(elements))
    else:
        setattr(response, path, [*there, *elements])


def _made(plan: Plan, asked: Struct | None, code: int, message: str | None, *, top: bool = False) -> Struct:
    made: Struct = blank(plan)
    for field in plan.present:
        if field.name in _CODES:
            setattr(made, field.name, code)
        elif field.name == "error_message":
            setattr(made, field.name, message if field.nullable else message or "")
        elif field.element is not None and field.plan is not None:
            # What is refused as a whole mostly names nothing.
            is_told = not (top and _has_code(plan)) or getattr(asked, "API_KEY", None) in _TOLD_TWICE
            tells = _tells(field.plan) or field.name in _NAMES_BY_PARTS
            source = _array(asked, field.name) if is_told and tells else []
            setattr(made, field.name, [_element(field, one, code, message) for one in source])
        elif field.element is None and field.plan is None and field.name not in _NOT_REPEATED:
            value = _NOTHING.get(field.name) if top or field.name not in _NAMES else None
            for name in (field.name, *_SOURCES.get(field.name, ())):
                value = getattr(asked, name, None) if value is None else value
            if value is not None or (field.nullable and hasattr(asked, field.name)):
                setattr(made, field.name, value)
    return made


def _element(field: Field, one: Struct | str | int, code: int, message: str | None) -> Struct:
    if not isinstance(one, (str, int)):
        return _made(field.plan, one, code, message)
    # Of a request that has only names or numbers there.
    made = _made(field.plan, None, code, message)
    wanted = "string" if isinstance(one, str) else "int32"
    unnamed = (*_CODES, "error_message")
    name = next(inner.name for inner in field.plan.present if inner.type == wanted and inner.name not in unnamed)
    setattr(made, name, one)
    return made


def _has_code(plan: Plan) -> bool:
    return any(field.name in _CODES for field in plan.present)


def _tells(plan: Plan) -> bool:
    """Whether elements, or what is in them, say what is wrong; others are what was asked for, and not given."""
    return _has_code(plan) or any(field.plan is not None and _tells(field.plan) for field in plan.present)


def _array(asked: Struct | None, name: str) -> list[Any]:
    if asked is None:
        return []
    for source in (name, *_SOURCES.get(name, ())):
        found = getattr(asked, source, None)
        if isinstance(found, list):
            return found
    arrays = [getattr(asked, slot) for slot in type(asked).__slots__ if isinstance(getattr(asked, slot), list)]
    filled = [array for array in arrays if array]
    return filled[0] if filled else []
