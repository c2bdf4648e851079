"""What a client is told when a coordinator could not write its records (CoordinatorOperationExceptionHelper)."""

from __future__ import annotations

from barnabas import errors

_E = errors
#: The code of the append's error → the error that clients know how to handle from a coordinator.
_TRANSLATED: dict[int, type[errors.KafkaError]] = {
    _E.UnknownTopicOrPartitionError.code: _E.CoordinatorNotAvailableError,
    _E.NotEnoughReplicasError.code: _E.CoordinatorNotAvailableError,
    _E.NotEnoughReplicasAfterAppendError.code: _E.CoordinatorNotAvailableError,
    _E.KafkaTimeoutError.code: _E.CoordinatorNotAvailableError,
    _E.NotLeaderOrFollowerError.code: _E.NotCoordinatorError,
    _E.KafkaStorageError.code: _E.NotCoordinatorError,
    _E.RecordTooLargeError.code: _E.UnknownServerError,
    _E.RecordBatchTooLargeError.code: _E.UnknownServerError,
    _E.InvalidFetchSizeError.code: _E.UnknownServerError,
}


def translated(error: errors.KafkaError, what: str) -> errors.KafkaError:
    """Give the error that answers the request, with `what` could not be done in front; most errors stay as they are."""
    answered = _TRANSLATED.get(error.code)
    return error if answered is None else answered(f"{what}: {error}")


def coordinator_error_code(error: errors.KafkaError) -> int:
    """Give the code that answers a request whose records could not be written because of `error`."""
    answered = _TRANSLATED.get(error.code)
    return error.code if answered is None else answered.code
