"""The lambdas of a case: an array is a call, anything else a literal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.streams.windowed import Windowed

Arguments = dict[str, Any]
Expression = Callable[[Arguments], Any]

_ARGUMENTS = ("key", "value", "agg", "left", "right")


def number(value: Any) -> int:
    """Return what counts: None is 0, a text its length."""
    if value is None:
        return 0
    return len(value) if isinstance(value, str) else int(value)


def text(value: Any) -> str:
    """Return a value as Java prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _before(value: Any, separator: str) -> Any:
    return None if value is None else text(value).partition(separator)[0]


def _after(value: Any, separator: str) -> Any:
    return None if value is None else text(value).partition(separator)[2]


def _window(value: Any) -> Windowed[Any]:
    if not isinstance(value, Windowed):
        raise TypeError(f"{value!r} is no windowed key")
    return value


def _fail(message: Any) -> Any:
    raise RuntimeError(text(message))


def _of_text(make: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else make(text(value))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "not": lambda x: x is not True,
    "is_null": lambda x: x is None,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: number(a) < number(b),
    "gt": lambda a, b: number(a) > number(b),
    "concat": lambda *parts: "".join(map(text, parts)),
    "str": text,
    "upper": _of_text(str.upper),
    "lower": _of_text(str.lower),
    "prefix": lambda x, n: None if x is None else text(x)[:n],
    "suffix": lambda x, n: None if x is None else text(x)[max(0, len(text(x)) - n) :],
    "before": _before,
    "after": _after,
    "len": number,
    "add": lambda a, b: number(a) + number(b),
    "sub": lambda a, b: number(a) - number(b),
    "mul": lambda a, b: number(a) * number(b),
    "mod": lambda a, b: number(a) % number(b),
    "contains": lambda x, s: x is not None and s in text(x),
    "starts_with": lambda x, s: x is not None and text(x).startswith(s),
    "list": lambda *items: list(items),
    "chars": lambda x: [] if x is None else list(text(x)),
    "pair": lambda key, value: (key, value),
    "window_key": lambda x: _window(x).key,
    "window_start": lambda x: _window(x).window.start,
    "window_end": lambda x: _window(x).window.end,
    "fail": _fail,
}


def expression(given: Any) -> Expression:
    """Compile an expression. Raises ValueError for an unknown call."""
    if not isinstance(given, list):
        return lambda arguments: given
    name, *rest = given
    if name in _ARGUMENTS:
        return lambda arguments: arguments[name]
    parts = [expression(part) for part in rest]
    if name == "if":
        return lambda arguments: parts[1 if parts[0](arguments) is True else 2](arguments)
    if name == "and":
        return lambda arguments: all(part(arguments) is True for part in parts)
    if name == "or":
        return lambda arguments: any(part(arguments) is True for part in parts)
    if name not in _FUNCTIONS:
        raise ValueError(f"an unknown call: {name}")
    function = _FUNCTIONS[name]
    return lambda arguments: function(*(part(arguments) for part in parts))


def of_key_value(given: Any) -> Callable[[Any, Any], Any]:
    """Return a function of (key, value)."""
    body = expression(given)
    return lambda key, value: body({"key": key, "value": value})


def of_sides(given: Any) -> Callable[[Any, Any, Any], Any]:
    """Return a joiner of (key, left, right)."""
    body = expression(given)
    return lambda key, left, right: body({"key": key, "left": left, "right": right})


def of_two_sides(given: Any) -> Callable[[Any, Any], Any]:
    """Return a joiner of (left, right)."""
    body = expression(given)
    return lambda left, right: body({"key": None, "left": left, "right": right})


def aggregator(given: Any) -> Callable[[Any, Any, Any], Any]:
    """Return an aggregator of (key, value, aggregate)."""
    body = expression(given)
    return lambda key, value, agg: body({"key": key, "value": value, "agg": agg})


def reducer(given: Any) -> Callable[[Any, Any], Any]:
    """Return a reducer of (value so far, new value)."""
    body = expression(given)
    return lambda agg, value: body({"agg": agg, "value": value})


def initializer(given: Any) -> Callable[[], Any]:
    """Return a function without arguments."""
    body = expression(given)
    return lambda: body({})
