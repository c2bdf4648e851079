"""Operations that take one kind of request, written as functions: what to ask, and what the answer says of each key."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from barnabas.client.admin.admin_api_handler import K, Lookup, Outcome, Scope, StaticLookup, Target, V, is_passing
from barnabas.errors import KafkaError, UnsupportedVersionError, for_code
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import stable_versions
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.network.client_request import Request
    from barnabas.protocol.message import Message

Key = TypeVar("Key")
Part = TypeVar("Part")
R = TypeVar("R", bound="Message")

Answer = tuple[K, int, "str | None", V]
"""What a response says of a key: an error code, a message, and the value if the code is 0."""


class KeyedRequest(Generic[K, V]):
    """An AdminApiHandler: one request carries all the keys that go to the same broker.

    An error code of the response as a whole stands for all of its keys.
    """

    def __init__(
        self,
        name: str,
        lookup: Lookup[K],
        build: Callable[[list[K], int], Request],
        answers: Callable[[list[K], R], Iterable[Answer[K, V]]],
        also_passing: Container[int] = (),
    ) -> None:
        self._name = name
        self._lookup = lookup
        self._build = build
        # The response answers what `build` made, so it is an R.
        self._answers: Callable[[list[K], Any], Iterable[Answer[K, V]]] = answers
        self._also_passing = also_passing

    @property
    def name(self) -> str:
        """See `AdminApiHandler`."""
        return self._name

    @property
    def lookup(self) -> Lookup[K]:
        """See `AdminApiHandler`."""
        return self._lookup

    def build_request(self, keys: list[K], timeout_ms: int) -> Request:
        """See `AdminApiHandler`."""
        return self._build(keys, timeout_ms)

    def handle_response(self, keys: list[K], response: Message, outcome: Outcome[K, V]) -> None:
        """See `AdminApiHandler`."""
        code, message = getattr(response, "error_code", 0), getattr(response, "error_message", None)
        if code:
            for key in keys:
                outcome.is_success(key, code, message, self._also_passing)
            return
        for key, key_code, key_message, value in self._answers(keys, response):
            if outcome.is_success(key, key_code, key_message, self._also_passing):
                outcome.complete(key, value)


def one_request(
    name: str,
    build: Callable[[int], Request],
    read: Callable[[R], V],
    target: Scope | Callable[[str], Target] = Scope.ANY,
) -> KeyedRequest[str, V]:
    """Return an operation on one thing as a whole, whose response has at most one error code."""
    lookup: StaticLookup[str] = StaticLookup(target)

    def answers(keys: list[str], response: R) -> list[Answer[str, V]]:
        return [(keys[0], 0, None, read(response))]

    return KeyedRequest(name, lookup, lambda keys, timeout_ms: build(timeout_ms), answers)


def from_each_broker(name: str, build: Callable[[], Request], read: Callable[[int, R], V]) -> KeyedRequest[int, V]:
    """Return the same request to several brokers; the keys are their ids, which `read` takes with the response."""
    lookup: StaticLookup[int] = StaticLookup(lambda node_id: node_id)

    def answers(keys: list[int], response: R) -> list[Answer[int, V]]:
        return [(keys[0], 0, None, read(keys[0], response))]

    return KeyedRequest(name, lookup, lambda keys, timeout_ms: build(), answers)


class RequestInParts(Generic[Part]):
    """An AdminApiHandler with one key, whose value has an error, or None, for each part of the response.

    A part's error that passes makes the whole request be sent again.
    """

    def __init__(
        self,
        name: str,
        lookup: Lookup[str],
        build: Callable[[str, int], Request],
        parts: Callable[[R], Iterable[tuple[Part, int, str | None]]],
    ) -> None:
        self._name = name
        self._lookup = lookup
        self._build = build
        self._parts: Callable[[Any], Iterable[tuple[Part, int, str | None]]] = parts

    @property
    def name(self) -> str:
        """See `AdminApiHandler`."""
        return self._name

    @property
    def lookup(self) -> Lookup[str]:
        """See `AdminApiHandler`."""
        return self._lookup

    def build_request(self, keys: list[str], timeout_ms: int) -> Request:
        """See `AdminApiHandler`."""
        return self._build(keys[0], timeout_ms)

    def handle_response(
        self, keys: list[str], response: Message, outcome: Outcome[str, Mapping[Part, KafkaError | None]]
    ) -> None:
        """See `AdminApiHandler`."""
        key = keys[0]
        code, message = getattr(response, "error_code", 0), getattr(response, "error_message", None)
        if not outcome.is_success(key, code, message):
            return
        errors: dict[Part, KafkaError | None] = {}
        for part, part_code, text in self._parts(response):
            if part_code and is_passing(part_code):
                outcome.retry(key, for_code(part_code))
                return
            errors[part] = for_code(part_code, f"{part}: {text or for_code(part_code)}") if part_code else None
        outcome.complete(key, errors)


def one_key_each(api_key: int, what: str, build: Callable[[Key], Message], keys: list[Key]) -> RequestBuilder:
    """Return a request that has room for one key; the driver sends one for each when it is told so."""

    def build_one(version: int) -> Message:
        if len(keys) > 1:
            raise UnsupportedVersionError(f"{what} takes one key a request")
        return build(keys[0])

    return RequestBuilder(api_key, build_one, *stable_versions(api_key))


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...


P = TypeVar("P", bound=_Partition, covariant=True)


class _Topic(Protocol[P]):
    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[P]: ...


def partitions_of(topics: Iterable[_Topic[P]]) -> Iterable[tuple[TopicPartition, P]]:
    """Return the partitions of a response with `topics`, each with `name` and `partitions` with `partition_index`."""
    for topic in topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition
