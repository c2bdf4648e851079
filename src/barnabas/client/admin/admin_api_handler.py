"""An operation as data: whom to ask, what to ask, what the answer means. Kafka's AdminApiHandler."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from barnabas.errors import KafkaError, for_code
from barnabas.network.node import NO_NODE, Node
from barnabas.protocol import kafka_uuid

if TYPE_CHECKING:
    from barnabas.network.client_request import Request
    from barnabas.protocol.message import Message

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Scope(Enum):
    """Brokers that need no looking up."""

    ANY = "any broker"
    CONTROLLER = "the controller"


Target = Scope | Node | int
"""Where a request goes: a scope, a broker that a lookup found, or the id of one."""


_PASSING = frozenset(
    {
        5,  # LEADER_NOT_AVAILABLE
        6,  # NOT_LEADER_OR_FOLLOWER
        8,  # BROKER_NOT_AVAILABLE
        9,  # REPLICA_NOT_AVAILABLE
        14,  # COORDINATOR_LOAD_IN_PROGRESS
        15,  # COORDINATOR_NOT_AVAILABLE
        16,  # NOT_COORDINATOR
        41,  # NOT_CONTROLLER
        56,  # KAFKA_STORAGE_ERROR
        74,  # FENCED_LEADER_EPOCH
        75,  # UNKNOWN_LEADER_EPOCH
        78,  # OFFSET_NOT_AVAILABLE
        89,  # THROTTLING_QUOTA_EXCEEDED
    }
)
"""Errors that say "not now" or "not here", of any operation."""


def is_passing(code: int) -> bool:
    """Whether an error code says "not now" or "not here": asking again, or somewhere else, may succeed."""
    return code in _PASSING


def label(key: object) -> str:
    """Return a key as it is shown to people; a number is a broker's."""
    if isinstance(key, int):
        return f"broker {key}"
    return kafka_uuid.to_text(key) if isinstance(key, bytes) else str(key)


class Outcome(Generic[K, V]):
    """What one response said of its keys. A key of which it said nothing is looked up and asked for again.

    `broker` is the one that gave the response.
    """

    __slots__ = ("broker", "completed", "failed", "problems")

    def __init__(self, broker: Node = NO_NODE) -> None:
        self.broker = broker
        self.completed: dict[K, V] = {}
        self.failed: dict[K, KafkaError] = {}
        self.problems: dict[K, KafkaError] = {}

    def complete(self, key: K, value: V) -> None:
        """Note that the operation succeeded for this key."""
        self.completed[key] = value

    def fail(self, key: K, error: KafkaError) -> None:
        """Note that the operation failed for this key, for good."""
        self.failed[key] = error

    def retry(self, key: K, error: KafkaError) -> None:
        """Look up the broker and ask again, after a backoff; the error is what is said if time runs out."""
        self.problems[key] = error

    def is_success(self, key: K, code: int, message: str | None = None, also_passing: Container[int] = ()) -> bool:
        """Whether `code` is 0. If not, the key is retried when the error is one that passes, else it has failed."""
        if code == 0:
            return True
        error = for_code(code)
        error.args = (f"{label(key)}: {message or error}",)
        if code in _PASSING or code in also_passing:
            self.retry(key, error)
        else:
            self.fail(key, error)
        return False


class Lookup(Protocol[K]):
    """Finds the broker that is responsible for a key.

    The response is of the class that answers what `build_request` made; each implementation names it.
    """

    def static_target(self, key: K) -> Target | None:
        """Return the target, where that needs no asking."""

    def build_request(self, keys: list[K]) -> Request:
        """Return what to ask any broker, for the keys that have no static target."""

    def handle_response(self, keys: list[K], response: Any, found: Outcome[K, Target]) -> None:
        """Complete each key with its target."""


class AdminApiHandler(Protocol[K, V]):
    """One operation on any number of keys. A request may carry all the keys that have the same target.

    The response is of the class that answers what `build_request` made; each implementation names it.
    """

    @property
    def name(self) -> str:
        """The operation's name, for messages."""

    @property
    def lookup(self) -> Lookup[K]:
        """Who finds the brokers."""

    def build_request(self, keys: list[K], timeout_ms: int) -> Request:
        """Return the request for these keys."""

    def handle_response(self, keys: list[K], response: Any, outcome: Outcome[K, V]) -> None:
        """Sort the keys of a response by what became of them."""


class StaticLookup(Generic[K]):
    """A target that is known beforehand: one for all keys, or a function of the key."""

    def __init__(self, target: Scope | Callable[[K], Target]) -> None:
        self._target = target

    def static_target(self, key: K) -> Target | None:
        """See `Lookup`."""
        return self._target if isinstance(self._target, Scope) else self._target(key)

    def build_request(self, keys: list[K]) -> Request:
        """See `Lookup`; never needed."""
        raise AssertionError("a static target is not looked up")

    def handle_response(self, keys: list[K], response: Message, found: Outcome[K, Target]) -> None:
        """See `Lookup`; never needed."""
        raise AssertionError("a static target is not looked up")
