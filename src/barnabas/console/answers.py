"""What goes in and out of `/api`: JSON, and errors with what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from starlette.responses import JSONResponse

from barnabas import errors
from barnabas.errors import IllegalArgumentError, KafkaError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from barnabas.protocol.topic_partition import TopicPartition

_STATUS: tuple[tuple[int, tuple[type[KafkaError], ...]], ...] = (
    (403, (errors.AuthorizationError,)),
    (404, (errors.UnknownTopicOrPartitionError, errors.GroupIdNotFoundError, errors.TransactionalIdNotFoundError,
           errors.OffsetOutOfRangeError, errors.ResourceNotFoundError)),
    (409, (errors.TopicExistsError, errors.GroupNotEmptyError)),
    (504, (errors.KafkaTimeoutError,)),
    (400, (
        errors.UsageError, errors.InvalidTopicError, errors.InvalidPartitionsError,
        errors.InvalidReplicationFactorError, errors.InvalidConfigurationError, errors.PolicyViolationError,
        errors.InvalidRequestError,
    )),
)  # fmt: skip
_ELSE = 502


def status_of(error: KafkaError) -> int:
    """Return the status of HTTP that comes nearest to an error of Kafka's; 502 for what the cluster failed at."""
    return next((status for status, kinds in _STATUS if isinstance(error, kinds)), _ELSE)


class Failure(TypedDict):
    """What a page is told of an error: its class, its message, and the status of HTTP that comes nearest to it."""

    error: str
    message: str
    status: int


def failure(error: Exception) -> Failure:
    """Return what a page is told of an error of Kafka's, or of one by which the console itself has failed."""
    name = type(error).__name__
    status = status_of(error) if isinstance(error, KafkaError) else 500
    return {"error": name, "message": " ".join(str(error).split()) or name, "status": status}


async def on_kafka_error(request: Request, error: Exception) -> Response:
    """Answer with an error: its class, and its message."""
    told = failure(error)
    return JSONResponse(told, told["status"])


async def on_fault(request: Request, error: Exception) -> Response:
    """Answer for a fault of the console's own; the log has its traceback."""
    told = failure(error) | {"message": "the console failed at this; its log says how"}
    return JSONResponse(told, told["status"])


class Body:
    """The fields of a request's JSON object. Each method raises `IllegalArgumentError` that names the field."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    @classmethod
    async def of(cls, request: Request) -> Body:
        """Read a request's body. Raises `IllegalArgumentError` when it is no JSON object."""
        try:
            document = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise IllegalArgumentError("the body is no JSON") from None
        if not isinstance(document, dict):
            raise IllegalArgumentError("the body is no JSON object")
        return cls(document)

    def has(self, name: str) -> bool:
        """Whether there is such a field."""
        return self._fields.get(name) is not None

    def text(self, name: str) -> str:
        """Return a text."""
        return str(self._typed(name, str, "a text"))

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a whole number."""
        if default is not None and self._fields.get(name) is None:
            return default
        return int(self._typed(name, int, "a whole number"))

    def flag(self, name: str) -> bool:
        """Return a truth value; false where there is none."""
        return name in self._fields and bool(self._typed(name, bool, "true or false"))

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty where there is none."""
        found = self._fields.get(name, [])
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            raise IllegalArgumentError(f"{name} must be a list of texts")
        return found

    def settings(self, name: str) -> dict[str, str]:
        """Return texts by name; empty where there is none."""
        found = self._fields.get(name, {})
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise IllegalArgumentError(f"{name} must be an object of texts")
        return found

    def confirmed(self, what: str) -> None:
        """Check that the name of what is lost was typed in."""
        if self.text("confirm") != what:
            raise IllegalArgumentError(f"confirm must be {what!r}, the name of what is to be lost")

    def _typed(self, name: str, kind: type, expected: str) -> Any:
        value = self._fields.get(name)
        if type(value) is not kind:
            raise IllegalArgumentError(f"{name} must be {expected}")
        return value


class Place(TypedDict):
    """The fields that say which partition a row is about."""

    topic: str
    partition: int


def place(partition: TopicPartition) -> Place:
    """Return the fields for a partition."""
    return {"topic": partition.topic, "partition": partition.partition}


def parameter(request: Request, name: str, default: str = "") -> str:
    """Return a parameter of the query."""
    return str(request.query_params.get(name, default))


def number_parameter(request: Request, name: str, default: int | None = None) -> int:
    """Return a whole number of the query. Raises `IllegalArgumentError` for anything else."""
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    try:
        return int(text or "")
    except ValueError:
        raise IllegalArgumentError(f"{name} must be a whole number, not {text!r}") from None
