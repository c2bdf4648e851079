"""What is known of an API by its key: its classes, its versions, the versions of its headers."""

from __future__ import annotations

from importlib import import_module

from barnabas.errors import IllegalArgumentError, UnsupportedVersionError
from barnabas.protocol.api_keys import FLEXIBLE_FROM, MODULES, STABLE_VERSIONS, ApiKey
from barnabas.protocol.names import camel_case, snake_case

TYPE_CHECKING = False
if TYPE_CHECKING:
    from barnabas.protocol.message import Message

__all__ = [
    "ApiKey",
    "message_class",
    "negotiate",
    "request_class",
    "request_header_version",
    "response_class",
    "response_header_version",
    "stable_versions",
]


_CLASSES: dict[tuple[int, str], type[Message]] = {}


def request_class(key: int) -> type[Message]:
    """Return the class of an API's requests; `IllegalArgumentError` for a key that is not known."""
    return _class(key, "request")


def response_class(key: int) -> type[Message]:
    """Return the class of an API's responses; `IllegalArgumentError` for a key that is not known."""
    return _class(key, "response")


def message_class(name: str) -> type[Message]:
    """Return the class of any message by Kafka's name for it (`FetchRequest`, `OffsetCommitValue`).

    Raises `IllegalArgumentError` for a name that the schema does not have.
    """
    try:
        module = import_module(f"barnabas.protocol.messages.{snake_case(name)}") if name.isalnum() else None
    except ModuleNotFoundError:
        module = None
    found: type[Message] | None = getattr(module, name, None)
    if found is None:
        raise IllegalArgumentError(f"There is no message named {name!r}; names are written as FetchRequest")
    return found


def stable_versions(key: int) -> tuple[int, int]:
    """Return the lowest and the highest version of an API, without one that Kafka marks as unstable.

    Raises `IllegalArgumentError` for a key that is not known.
    """
    _name(key)
    return STABLE_VERSIONS[key]


def negotiate(key: int, broker_low: int, broker_high: int) -> int:
    """Return the highest version of an API that both sides have.

    Raises `UnsupportedVersionError` when the broker's range and ours do not meet.
    """
    low, high = stable_versions(key)
    version = min(high, broker_high)
    if version < max(low, broker_low):
        ours, theirs = f"{low} to {high}", f"{broker_low} to {broker_high}"
        raise UnsupportedVersionError(f"{ApiKey(key).name}: the broker has the versions {theirs}, this client {ours}")
    return version


def request_header_version(key: int, version: int) -> int:
    """Return 2 for a flexible version of the API, else 1; ControlledShutdown's version 0 is left out."""
    _name(key)
    return 2 if version >= FLEXIBLE_FROM[key] else 1


def response_header_version(key: int, version: int) -> int:
    """Return 1 for a flexible version of the API, else 0.

    ApiVersions always has 0: its response must be readable by a client that does not know the version (KIP-511).
    """
    _name(key)
    return 1 if version >= FLEXIBLE_FROM[key] and key != ApiKey.API_VERSIONS else 0


def _name(key: int) -> str:
    name = MODULES.get(key)
    if name is None:
        raise IllegalArgumentError(f"There is no API with the key {key}")
    return name


def _class(key: int, kind: str) -> type[Message]:
    # Every request and every response asks.
    found = _CLASSES.get((key, kind))
    if found is None:
        name = f"{_name(key)}_{kind}"
        module = import_module(f"barnabas.protocol.messages.{name}")
        name = camel_case(name)
        found = _CLASSES[key, kind] = getattr(module, name[0].upper() + name[1:])
    return found
