"""What becomes of a record that cannot be deserialized: the handler decides (KIP-161). Source: RecordDeserializer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.exception_handlers import Response, Result
from barnabas.streams.errors import StreamsError

if TYPE_CHECKING:
    from barnabas.streams.engine.exception_handlers import ErrorHandlerContext
    from barnabas.streams.engine.record import InputRecord


def handle_deserialization_failure(
    handler: Any,
    where: ErrorHandlerContext,
    raw: InputRecord,
    problem: Exception,
    send: Callable[[Any], None],
) -> None:
    """Ask `deserialization.exception.handler`; return when the record is to be left out.

    `send` takes what the handler has for a dead letter queue. Raises `StreamsError` when the task must fail.
    """
    try:
        response: Response = handler.handle_error(where, raw, problem)
        result = response.result
    except Exception as fatal:
        raise StreamsError("Fatal user code error in deserialization error callback") from fatal
    for sent in response.dead_letter_queue_records:
        send(sent)
    if result is Result.FAIL:
        raise StreamsError(
            "Deserialization exception handler is set to fail upon a deserialization error. If you would rather "
            "have the streaming pipeline continue after a deserialization error, please set the "
            "deserialization.exception.handler appropriately."
        ) from problem
