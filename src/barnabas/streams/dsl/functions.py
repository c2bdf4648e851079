"""What users give as functions, as the engine calls them: the number of arguments is found once, when it is given.

Kafka has overloads: a mapper takes the value, or the key and the value. Here the function decides.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast


def checked(function: Any, arguments: str, step: str, null: str) -> Callable[..., Any]:
    """Return a function that takes exactly these arguments, named by words such as "key value"; `null`: not None.

    Raises TypeError, naming the step, for what cannot be called with as many.
    """
    names = arguments.split()
    _check_callable(function, names, step, null)
    if _takes(function, len(names)):
        return cast("Callable[..., Any]", function)
    raise TypeError(f"{step} needs a function of ({', '.join(names)}), but {_text(function)} takes other arguments")


def with_key(function: Any, arguments: str, step: str, null: str) -> Callable[..., Any]:
    """Return a function of the key and the arguments, of one that takes the key or not.

    Raises TypeError, naming the step, for what can be called with neither number of arguments.
    """
    names = arguments.split()
    _check_callable(function, names, step, null)
    if _takes(function, len(names)):
        return _KEYLESS[len(names)](function)
    if _takes(function, len(names) + 1):
        return cast("Callable[..., Any]", function)
    raise TypeError(
        f"{step} needs a function of ({', '.join(names)}) or (key, {', '.join(names)}), but {_text(function)} takes "
        "other arguments"
    )


def _one(function: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda key, value: function(value)


def _two(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda key, first, second: function(first, second)


_KEYLESS: dict[int, Callable[[Any], Callable[..., Any]]] = {1: _one, 2: _two}


def reversed_joiner(joiner: Callable[..., Any]) -> Callable[..., Any]:
    """Return a joiner of (key, left, right) that takes the sides the other way round."""
    return lambda key, right, left: joiner(key, left, right)


def _check_callable(function: Any, names: list[str], step: str, null: str) -> None:
    if callable(function):
        return
    wanted = f"{step} needs a function of ({', '.join(names)})"
    if function is None:
        problem = TypeError(null)  # Kafka's words
        problem.add_note(wanted)
        raise problem
    raise TypeError(f"{wanted}, not {function!r}")


def _takes(function: Any, count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a builtin that tells nothing of its arguments
        return True
    return True


def _text(function: Any) -> str:
    try:
        return f"{getattr(function, '__qualname__', repr(function))}{inspect.signature(function)}"
    except (TypeError, ValueError):
        return repr(function)
