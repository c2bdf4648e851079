"""What the parts of a client hold, as text: of two clients that differ in one setting, whether it reaches any part."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from random import Random
from typing import Any

from barnabas.client.admin.admin_operations import AdminOperations
from barnabas.client.consumer.consumer_config import ConsumerConfig
from barnabas.client.consumer.consumer_parts import consumer_parts
from barnabas.client.environment import Environment
from barnabas.client.producer.buffer_pool import Waiter
from barnabas.client.producer.producer_config import ProducerConfig
from barnabas.client.producer.producer_parts import ProducerParts
from barnabas.config.config import Config
from barnabas.config.config_def import ConfigDef

#: They hold all settings, used or not.
_SETTINGS = (Config, ConfigDef)
_LEAVES = (str, bytes, int, float, type(None), type)


class Fixed(Environment):
    """Time stands still, and the seed is the same."""

    def __init__(self) -> None:
        super().__init__(Random(7))

    def clock(self) -> float:
        return 1000.0

    def wall_clock_ms(self) -> int:
        return 1_700_000_000_000


def producer(settings: Mapping[str, Any]) -> Iterable[Any]:
    """Return the parts of a producer."""
    parts = ProducerParts(ProducerConfig(None, dict(settings)), Fixed(), Waiter)
    path = parts.send_path(lambda topic, partition: None)
    yield parts
    yield path
    parts.client.close()


def consumer(settings: Mapping[str, Any]) -> Iterable[Any]:
    """Return the parts of a consumer."""
    parts = consumer_parts(ConsumerConfig(None, {"group.id": "g", **settings}), Fixed())
    yield parts
    parts.client.client.close()
    if parts.coordinator is not None:
        parts.coordinator.network_client.close()


def admin(settings: Mapping[str, Any]) -> Iterable[Any]:
    """Return an admin client."""
    operations = AdminOperations(dict(settings), environment=Fixed())
    yield operations
    operations._client.close()


CLIENTS = {"producer": producer, "consumer": consumer, "admin": admin}


def leaves(section: str, settings: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return all values that the parts of a client hold, each with the way to it."""
    given = {"bootstrap.servers": "h:1", "client.id": "c", **settings}
    found: set[tuple[str, str]] = set()
    seen: set[int] = set()
    kept: list[Any] = []
    for number, part in enumerate(CLIENTS[section](given)):
        queue = deque([(str(number), part)])
        while queue:
            way, value = queue.popleft()
            if isinstance(value, _LEAVES):
                found.add((way, repr(value)))
            elif id(value) not in seen and not isinstance(value, _SETTINGS):
                seen.add(id(value))
                kept.append(value)
                found.add((way, type(value).__name__))
                queue.extend((f"{way}.{name}", inner) for name, inner in _inside(value))
    return found


def _inside(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(repr(key), inner) for key, inner in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return list(zip(getattr(value, "_fields", map(str, range(len(value)))), value, strict=True))
    if isinstance(value, (set, frozenset)):
        return [(repr(inner), None) for inner in value]
    if isinstance(value, partial):
        return [("function", value.func), ("arguments", value.args), ("keywords", value.keywords)]
    if isinstance(value, types.MethodType):
        return [("self", value.__self__)]
    if isinstance(value, types.FunctionType):
        names, cells = value.__code__.co_freevars, value.__closure__ or ()
        return [(name, cell.cell_contents) for name, cell in zip(names, cells, strict=True)]
    if not type(value).__module__.startswith("barnabas"):
        return []
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    inside = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return sorted({**inside, **getattr(value, "__dict__", {})}.items())


def _slots(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots
