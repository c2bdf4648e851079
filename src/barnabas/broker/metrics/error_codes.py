"""The error codes in a response of any API: each `error_code` of the message and of its structs, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.protocol.message import Struct

_CODE = "error_code"
#: Of a class: whether it has a code itself, and its fields that hold structs with codes.
_places: dict[type, tuple[bool, tuple[str, ...]]] = {}


def error_codes(message: Struct) -> Iterator[int]:
    """Yield all codes, those of success (0) too."""
    has_code, fields = _places.get(type(message)) or _find(type(message))
    if has_code:
        yield getattr(message, _CODE)
    for field in fields:
        held = getattr(message, field)
        # A list, or what stands for one in a large response (LazyList, EncodedElements).
        for struct in (held,) if held is None or hasattr(held, "FIELDS") else held:
            if struct is not None:
                yield from error_codes(struct)


def _find(cls: type) -> tuple[bool, tuple[str, ...]]:
    # A line of FIELDS is `name type versions ...`, the type of a list begins with [].
    lines = [line.split(" ") for line in cls.FIELDS]  # type: ignore[attr-defined]  # every generated class has it
    fields = []
    for name, kind, *_ in lines:
        struct = _struct(cls, kind.removeprefix("[]"))
        if struct is not None and any(_find(struct)):
            fields.append(name)
    found = _places[cls] = any(name == _CODE for name, *_ in lines), tuple(fields)
    return found


def _struct(cls: type, kind: str) -> type | None:
    import sys

    found = getattr(sys.modules[cls.__module__], kind, None)
    return found if isinstance(found, type) and hasattr(found, "FIELDS") else None
