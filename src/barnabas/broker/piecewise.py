"""Responses that are made a piece at a time: the loop serves others between two pieces, and while a piece waits.

The pieces are a generator. It yields None where the loop may go on, and a `Wait` where it cannot go on before the disk
has done something (`turn_of`, `outcome_of`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from barnabas.broker.purgatory import DelayedOperation
from barnabas.protocol.encoded_elements import EncodedElements
from barnabas.protocol.framing import encode_elements

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
    from barnabas.broker.purgatory import Purgatory
    from barnabas.protocol.message import Message

#: So many elements, each worth about a partition in a Metadata response, take a millisecond or two.
PIECE = 500

#: Responses in the making and those that clients do not take may hold about so many bytes together; beyond that a
#: response with a bound still gets so many, so that the others do not suffer.
MOST_BYTES = 64 << 20
LEAST_BYTES = 1 << 20

#: Called with what has the next piece made.
Wait: TypeAlias = Callable[[Callable[[], None]], object]
Element = TypeVar("Element")
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
#: Yields wherever the loop may go on or has to, and returns the outcome.
Steps: TypeAlias = Generator["Wait | None", None, Outcome]
Pieces: TypeAlias = Generator["Wait | None", None, "Message"]


class PiecewiseResponse(DelayedOperation):
    """A response in the making: what its pieces raise ends it. `wait` is what the next piece waits for, if it does."""

    __slots__ = ("_pieces", "wait")

    def __init__(self, pieces: Pieces, wait: Wait | None = None):
        super().__init__()
        self._pieces = pieces
        self.wait = wait

    @property
    def is_next(self) -> bool:
        """Whether another piece can be made now."""
        return self.wait is None and self.result is None and self.problem is None

    def step(self) -> bool:
        """Make one more piece; False after the last one, which answers, or a fault."""
        try:
            self.wait = next(self._pieces)
        except StopIteration as end:
            self.complete(end.value)
        except Exception as problem:  # noqa: BLE001 - given to who waits for the response
            self.fail(problem)
        else:
            return True
        return False

    def on_cancel(self) -> None:
        """Make nothing more: the client is gone."""
        self._pieces.close()


class PiecewiseResponses:
    """Gives each response in the making one piece, in turn; a service of the dispatcher."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[PiecewiseResponse] = deque()

    def _begin(self, pieces: Pieces, wait: Wait | None) -> PiecewiseResponse:
        response = PiecewiseResponse(pieces, wait)
        self._go_on(response)
        return response

    def _go_on(self, response: PiecewiseResponse) -> None:
        if response.wait is None:
            self._waiting.append(response)
        else:
            response.wait(lambda: self._waiting.append(response))

    def answer(self, pieces: Pieces) -> Message | PiecewiseResponse:
        """Make the first piece at once, and the others in turn; the response itself if there are no others."""
        try:
            wait = next(pieces)
        except StopIteration as end:
            response: Message = end.value
            return response
        return self._begin(pieces, wait)

    def tick(self, instant: Instant) -> None:
        """Make one piece of one response."""
        response = self._waiting.popleft()
        try:
            if not response.done and response.step():
                self._go_on(response)
        except Exception as problem:  # noqa: BLE001 - a fault of one response must not end the others
            response.fail(problem)

    def next_deadline(self) -> float:
        """At once, while anything is in the making that does not wait."""
        return 0.0 if self._waiting else inf


class ArrayField(NamedTuple):
    """An array of structs in a response: the response's class, the field's name (`"topics"`), the version."""

    message: type[Message]
    path: str
    version: int


class ResponseRoom:
    """The bytes that responses in the making hold; `unsent()` gives those of responses that clients have not taken."""

    __slots__ = ("_unsent", "held")

    def __init__(self, unsent: Callable[[], int]):
        self._unsent = unsent
        self.held = 0

    def is_used_up(self, own: int) -> bool:
        """Whether a response that holds `own` of the bytes may not grow."""
        return own >= LEAST_BYTES and self.held + self._unsent() >= MOST_BYTES


class Bound(NamedTuple, Generic[Item]):
    """Keeps a response small: where there is no room any more, `refuse` makes the element that says so."""

    room: ResponseRoom
    refuse: Callable[[Item], Any]


class LazyList(Generic[Element]):
    """Elements that are made while a message is encoded, one after the other, so that they are never there at once."""

    __slots__ = ("_count", "_make")

    def __init__(self, count: int, make: Callable[[], Iterator[Element]]):
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Element]:
        return self._make()


def answer_in_pieces(
    responses: PiecewiseResponses,
    array: ArrayField,
    items: Iterable[Item],
    make: Callable[[Item], tuple[Any, int]],
    finish: Callable[[Any], Message],
    bound: Bound[Item] | None = None,
) -> Message | PiecewiseResponse:
    """Answer at once if `items` come to less than a piece, or else a piece at a time; see `pieces_of`."""
    return responses.answer(pieces_of(array, items, make, finish, bound))


def pieces_of(
    array: ArrayField,
    items: Iterable[Item],
    make: Callable[[Item], tuple[Any, int]],
    finish: Callable[[Any], Message],
    bound: Bound[Item] | None = None,
) -> Pieces:
    """Make a response of one array.

    `make` gives the element for an item and its weight, of which `PIECE` take a millisecond or two; `finish` gives the
    response for all elements, or for their bytes. `bound` is for elements that are much larger than what asks for them.
    """
    left = iter(items)
    elements: list[Any] = []
    weight = 0
    for item in left:
        if weight >= PIECE:
            done = EncodedElements()
            done.add(encode_elements(elements, *array), len(elements))
            yield from _add_rest(array, done, chain((item,), left), make, bound)
            return finish(done)
        element, its_weight = make(item)
        elements.append(element)
        weight += its_weight
    return finish(elements)


def _add_rest(
    array: ArrayField,
    done: EncodedElements,
    left: Iterator[Item],
    make: Callable[[Item], tuple[Any, int]],
    bound: Bound[Item] | None,
) -> Steps[None]:
    elements: list[Any] = []
    weight = held = 0
    try:
        for item in left:
            if weight == 0:
                held = _hold(bound, done.size_in_bytes, held)
                yield None
            if bound is not None and bound.room.is_used_up(held):
                element, its_weight = bound.refuse(item), 1
            else:
                element, its_weight = make(item)
            elements.append(element)
            weight += its_weight
            if weight >= PIECE:
                done.add(encode_elements(elements, *array), len(elements))
                elements, weight = [], 0
        if elements:
            done.add(encode_elements(elements, *array), len(elements))
    finally:
        # From now on they are among those that the client has not taken, or gone.
        _hold(bound, 0, held)


def _hold(bound: Bound[Any] | None, size: int, held: int) -> int:
    if bound is not None:
        bound.room.held += size - held
    return size


def turn_of(metadata: ClusterMetadata) -> Steps[None]:
    """Wait until no change of the metadata is in flight: who plans one plans it on what there is."""
    while metadata.is_committing:
        yield metadata.when_committed


def outcome_of(begin: Callable[[Callable[[Outcome], None]], None]) -> Steps[Outcome]:
    """Begin something, and return what it tells; what is told at once is not waited for."""
    told: list[Outcome] = []
    waiting: list[Callable[[], None]] = []

    def tell(outcome: Outcome) -> None:
        told.append(outcome)
        for go_on in waiting:
            go_on()

    begin(tell)
    if not told:
        yield waiting.append
    return told[0]


def run_steps(steps: Steps[Any], done: Callable[[], None]) -> None:
    """Take steps that belong to no response, one after the other as they can be; `done` is called after the last."""
    for wait in steps:
        if wait is not None:
            wait(lambda: run_steps(steps, done))
            return
    done()


def message_of(purgatory: Purgatory, answer: Message | DelayedOperation | None) -> Steps[Message | None]:
    """Return a handler's answer when it is there, or raise its fault; it is given up when the client goes."""
    if not isinstance(answer, DelayedOperation):
        return answer

    def begin(tell: Callable[[Message | Exception], None]) -> None:
        purgatory.park(answer, tell, tell)

    try:
        outcome = yield from outcome_of(begin)
    finally:
        # The client may have gone meanwhile.
        purgatory.cancel(answer)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def in_pieces(elements: Iterable[Element], size: int) -> Iterator[list[Element]]:
    """List of `size` elements; the last one may be shorter."""
    piece: list[Element] = []
    for element in elements:
        piece.append(element)
        if len(piece) == size:
            yield piece
            piece = []
    if piece:
        yield piece


class HasPartitions(Protocol):
    """A topic of a request."""

    @property
    def partitions(self) -> list[Any]:
        """What is asked of its partitions."""


Topic = TypeVar("Topic", bound=HasPartitions)


def parts_of(topics: Iterable[Topic], size: int) -> Iterator[tuple[Topic, list[Any]]]:
    """Return the topics of a request with their partitions; one with more than `size` comes in several parts."""
    for topic in topics:
        for part in in_pieces(topic.partitions, size) if topic.partitions else ([],):
            yield topic, part
