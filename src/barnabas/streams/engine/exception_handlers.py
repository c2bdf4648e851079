"""What happens to a record that cannot be read, processed or written (KIP-161, KIP-1033, KIP-1034).

A handler returns a `Response`: resume or fail, and records for a dead-letter queue. Source: Kafka's package `errors`.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from barnabas.streams.engine.record import OutputRecord
from barnabas.streams.serdes.serde import Headers
from barnabas.streams.topology.processor_api import TaskId

_log = logging.getLogger(__name__)

DEAD_LETTER_QUEUE = "errors.dead.letter.queue.topic.name"


class Result(Enum):
    """What the application does next."""

    RESUME = "resume"
    FAIL = "fail"
    RETRY = "retry"


class Response(NamedTuple):
    """What a handler decided."""

    result: Result
    dead_letter_queue_records: Sequence[OutputRecord] = ()

    @staticmethod
    def resume(records: Sequence[OutputRecord] = ()) -> Response:
        """Leave the record out and go on."""
        return Response(Result.RESUME, records)

    @staticmethod
    def fail(records: Sequence[OutputRecord] = ()) -> Response:
        """Stop with an error."""
        return Response(Result.FAIL, records)

    @staticmethod
    def retry() -> Response:
        """Write the record again, if the error allows it."""
        return Response(Result.RETRY)


class ErrorHandlerContext(NamedTuple):
    """Where it happened; the bytes are those of the record that was read, None in a punctuation."""

    topic: str | None
    partition: int
    offset: int
    headers: Headers
    processor_node_id: str
    task_id: TaskId
    timestamp: int
    source_raw_key: bytes | None
    source_raw_value: bytes | None


class _Handler:
    """A handler of this module: `configure` tells it the dead-letter queue, if there is one."""

    RESULT = Result.FAIL
    WHAT = ""

    def __init__(self) -> None:
        self._queue: str | None = None

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take the application's settings."""
        queue = config.get(DEAD_LETTER_QUEUE)
        self._queue = None if queue is None else str(queue)

    def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
        """Log the error; resume or fail."""
        _log.log(
            logging.ERROR if self.RESULT is Result.FAIL else logging.WARNING,
            "Exception caught during %s, processor node: %s, taskId: %s, topic: %s, partition: %s, offset: %s",
            self.WHAT,
            context.processor_node_id,
            context.task_id,
            context.topic,
            context.partition,
            context.offset,
            exc_info=error,
        )
        return Response(self.RESULT, dead_letter_queue_records(self._queue, context, error))


class LogAndContinueExceptionHandler(_Handler):
    """Leaves out records that cannot be deserialized."""

    RESULT = Result.RESUME
    WHAT = "Deserialization"


class LogAndFailExceptionHandler(_Handler):
    """Stops at a record that cannot be deserialized."""

    WHAT = "Deserialization"


class LogAndContinueProcessingExceptionHandler(_Handler):
    """Leaves out records that a processor failed at."""

    RESULT = Result.RESUME
    WHAT = "message processing"


class LogAndFailProcessingExceptionHandler(_Handler):
    """Stops at a record that a processor failed at."""

    WHAT = "message processing"


class DefaultProductionExceptionHandler(_Handler):
    """Stops at a record that cannot be written, but writes again where the error allows it."""

    WHAT = "production"

    def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
        """Retry what can be retried, else fail."""
        if getattr(error, "retriable", False):
            return Response.retry()
        return Response.fail(dead_letter_queue_records(self._queue, context, error))

    def handle_serialization_error(
        self, context: ErrorHandlerContext, record: Any, error: Exception, origin: str
    ) -> Response:
        """Fail."""
        return Response.fail(dead_letter_queue_records(self._queue, context, error))


def dead_letter_queue_records(topic: str | None, context: ErrorHandlerContext, error: Exception) -> list[OutputRecord]:
    """Return the record for a dead-letter queue: the bytes that were read, headers that tell the error; [] for none."""
    if topic is None:
        return []
    stack = "".join(traceback.format_exception(error))
    texts = {
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": str(error),
        "stacktrace": stack,
        "topic": context.topic,
        "partition": str(context.partition),
        "offset": str(context.offset),
    }
    headers = [
        *context.headers,
        *((f"__streams.errors.{name}", None if text is None else text.encode()) for name, text in texts.items()),
    ]
    return [OutputRecord(topic, None, context.source_raw_key, context.source_raw_value, context.timestamp, headers)]
