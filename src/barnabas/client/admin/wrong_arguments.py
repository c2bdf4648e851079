"""Says which argument of an operation is wrong, after the operation could not be built or written."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import NoReturn, ParamSpec, TypeVar, cast

from barnabas.errors import IllegalArgumentError, IllegalTypeError, KafkaError

P = ParamSpec("P")
R = TypeVar("R")

#: What Python raises where a value is not of the kind that the code takes it for.
_SYMPTOMS = (TypeError, AttributeError, ValueError, LookupError, OverflowError)


def explained(operation: Callable[P, R]) -> Callable[P, R]:
    """Return the operation, whose errors of arguments name them, and are Kafka's.

    What the operation returns may have to be awaited; then its errors are those of the awaiting.
    """

    @functools.wraps(operation)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            result = operation(*arguments, **keywords)
        except Exception as error:  # noqa: BLE001  raised again, as it is or explained
            _raise(operation, arguments, keywords, error)
        return cast("R", awaited(result, arguments, keywords)) if inspect.iscoroutine(result) else result

    async def awaited(
        result: Coroutine[object, object, object], arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> object:
        try:
            return await result
        except Exception as error:  # noqa: BLE001  raised again, as it is or explained
            _raise(operation, arguments, keywords, error)

    return call


def _raise(
    operation: Callable[..., object], arguments: Sequence[object], keywords: Mapping[str, object], error: Exception
) -> NoReturn:
    # Raises Python's own error for a missing or an unknown argument.
    given = inspect.signature(operation).bind(*arguments, **keywords).arguments
    given.pop("self", None)
    call = f"{operation.__name__}({', '.join(f'{name}={repr(value)[:100]}' for name, value in given.items())})"
    if isinstance(error, IllegalArgumentError | IllegalTypeError) and not _names_one_of(error, given):
        told = type(error)(f"{call} cannot be carried out: {error}")
        # What became of the operation's parts.
        vars(told).update(vars(error))
        raise told from error
    if isinstance(error, KafkaError) or not isinstance(error, _SYMPTOMS) or _was_carried_out(error):
        raise error
    raise IllegalTypeError(
        f"{call} cannot be carried out: {type(error).__name__}: {error}. An argument has a type or form "
        "that it may not have; help() tells what each takes"
    ) from error


def _names_one_of(error: KafkaError, given: dict[str, object]) -> bool:
    text = str(error)
    # The codec speaks of the request's fields.
    return not text.startswith("Cannot write") and any(re.search(rf"\b{name}\b", text) for name in given)


def _was_carried_out(error: Exception) -> bool:
    """Whether the operation was built: the error is not one of its arguments then."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name in ("_complete", "_run_steps"):
            return True
        trace = trace.tb_next
    return False


def wrong_keys(operation: str, keys: Sequence[object], error: Exception) -> KafkaError:
    """Return the error of an operation that cannot be asked for of these keys."""
    if isinstance(error, KafkaError):
        return error
    found = IllegalTypeError(f"{operation} cannot be asked for of {repr(keys)[:300]}: {type(error).__name__}: {error}")
    found.__cause__ = error
    return found
