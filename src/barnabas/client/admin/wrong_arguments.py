"""Says which argument of an operation is wrong, after the operation could not be built."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from barnabas.errors import IllegalTypeError, KafkaError

P = ParamSpec("P")
R = TypeVar("R")

#: What Python raises where a value is not of the kind that the code takes it for.
_SYMPTOMS = (TypeError, AttributeError, ValueError, LookupError, OverflowError)


def explained(operation: Callable[P, R]) -> Callable[P, R]:
    """Return the operation, whose raw errors become an `IllegalTypeError` that names its arguments."""

    @functools.wraps(operation)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            return operation(*arguments, **keywords)
        except _SYMPTOMS as error:
            if isinstance(error, KafkaError) or _was_carried_out(error):
                raise
            # Raises Python's own error for a missing or an unknown argument.
            bound = inspect.signature(operation).bind(*arguments, **keywords)
            raise _explanation(operation.__name__, dict(bound.arguments), error) from error

    return call


def _was_carried_out(error: Exception) -> bool:
    """Whether the operation was built: the error is not one of its arguments then."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "_complete":
            return True
        trace = trace.tb_next
    return False


def wrong_keys(operation: str, keys: list[Any], error: Exception) -> KafkaError:
    """Return the error of an operation that cannot be asked for of these keys."""
    if isinstance(error, KafkaError):
        return error
    found = IllegalTypeError(f"{operation} cannot be asked for of {repr(keys)[:300]}: {type(error).__name__}: {error}")
    found.__cause__ = error
    return found


def _explanation(operation: str, arguments: dict[str, Any], error: Exception) -> IllegalTypeError:
    arguments.pop("self", None)
    given = ", ".join(f"{name}={repr(value)[:100]}" for name, value in arguments.items())
    return IllegalTypeError(
        f"{operation}({given}) cannot be carried out: {type(error).__name__}: {error}. An argument has a type or form "
        "that it may not have; help() tells what each takes"
    )
