"""Turns what people write into the value of a setting's type, as Kafka's ConfigDef does.

Every parser takes a string (from a file or a dict) or the Python value itself, and raises ValueError with the
expectation as its message; `ConfigDef` adds the setting's name and value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_RANGES = {"short": (-(2**15), 2**15 - 1), "int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}


class Password:
    """A secret setting: `.value` holds it; `str` and `repr` never show it."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


#: User and password before a host: in a URL, or in an address without a scheme.
_USER_INFO = re.compile(r"(?<=//)[^/\s'\",]*@|[^/\s'\",:@]+:[^\s'\",@]*@")


def shown(value: Any) -> str:
    """Show a value that is no secret in a message: its `repr`, without the user and password of a URL in it."""
    return _USER_INFO.sub("[hidden]@", repr(value))


class Resolved:
    """A value that config providers helped to make: `.value`; `repr` shows the `.text` with variables it came from."""

    __slots__ = ("text", "value")

    def __init__(self, value: Any, text: Any) -> None:
        self.value = value
        self.text = text

    def __repr__(self) -> str:
        return repr(self.text)


def _parse_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in ("true", "false"):
        return text == "true"
    raise ValueError("must be true or false")


def _integer_parser(type_name: str) -> Callable[[Any], int]:
    low, high = _RANGES[type_name]

    def parse(value: Any) -> int:
        number = _to_integer(value)
        if not low <= number <= high:
            raise ValueError(f"must fit a {type_name}, {low} to {high}")
        return number

    return parse


def _to_integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if text.lstrip("+-").isascii() and text.lstrip("+-").isdigit() and len(text) - len(text.lstrip("+-")) <= 1:
        return int(text)
    raise ValueError("must be a whole number")


def _parse_double(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number or (isinstance(value, str) and "_" not in value):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise ValueError("must be a number")


def _parse_string(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError("must be a string")


def _parse_list(value: Any) -> list[Any]:
    if isinstance(value, str):
        text = value.strip()
        return [item.strip() for item in text.split(",")] if text else []
    if isinstance(value, (list, tuple, set, frozenset)):
        return [item.strip() if isinstance(item, str) else item for item in value]
    raise ValueError("must be a list, or a string with commas between the items")


def _parse_class(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _parse_password(value: Any) -> Password:
    if isinstance(value, Password):
        return value
    if isinstance(value, str):
        return Password(value)
    raise ValueError("must be a string")


PARSERS: dict[str, Callable[[Any], Any]] = {
    "boolean": _parse_boolean,
    "short": _integer_parser("short"),
    "int": _integer_parser("int"),
    "long": _integer_parser("long"),
    "double": _parse_double,
    "string": _parse_string,
    "list": _parse_list,
    "class": _parse_class,
    "password": _parse_password,
}
