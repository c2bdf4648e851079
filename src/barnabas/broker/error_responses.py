"""Responses that tell of a fault of the broker, made of the request alone (AbstractRequest.getErrorResponse)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.security.refusals import refused
from barnabas.errors import UnknownServerError
from barnabas.protocol.api import request_class, response_class
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.plan import plan_of

if TYPE_CHECKING:
    from barnabas.protocol.codec import Plan
    from barnabas.protocol.message import Message

_CODES = ("error_code", "partition_error_code")
#: Who asks for these again upon a lost connection, and not upon UNKNOWN_SERVER_ERROR: Apache Kafka's coordinators.
_REPEATED_WHEN_LOST = frozenset({ApiKey.WRITE_TXN_MARKERS})


def fault_response(key: int, request: Message | None, version: int) -> Message | None:
    """Return a response in which all has failed with UNKNOWN_SERVER_ERROR; None where the connection has to end."""
    return None if key in _REPEATED_WHEN_LOST else error_response(key, request, version, UnknownServerError.code)


def error_response(key: int, request: Message | None, version: int, code: int) -> Message | None:
    """Return a response in which all has failed with an error; None where the response has no place for one.

    Without the request, what it asked for is not named: the error is told only where it stands for the whole.
    """
    response = refused(request_class(key)() if request is None else request, version, code)
    return response if _tells(response, plan_of(response_class(key), version)) else None


def _tells(message: Message, plan: Plan) -> bool:
    for field in plan.present:
        value = getattr(message, field.name)
        if field.name in _CODES and value:
            return True
        if field.plan is not None and isinstance(value, list) and any(_tells(one, field.plan) for one in value):
            return True
    return False
