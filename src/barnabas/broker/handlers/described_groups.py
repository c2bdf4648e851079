"""What the handlers that describe groups have in common: each group is answered once, by what it is or by its error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from barnabas import errors
from barnabas.broker.piecewise import ArrayField, answer_in_pieces
from barnabas.protocol.kinds import ResourceType

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message

#: What a group and one of its members are worth, in partitions of a Metadata response.
_GROUP_WEIGHT, _MEMBER_WEIGHT = 10, 10


class Described(Protocol):
    """A group in a response."""

    error_code: int
    authorized_operations: int

    @property
    def members(self) -> Sized:
        """Its members."""


class DescribeRequest(Protocol):
    """A request that may ask what the client may do with each group."""

    include_authorized_operations: bool


D = TypeVar("D", bound=Described)


class Classes(NamedTuple, Generic[D]):
    """The class of the response, and that of a group in it."""

    response: type[Message]
    group: Callable[..., D]


def answer_groups(
    broker: BrokerState,
    context: RequestContext,
    request: DescribeRequest,
    group_ids: Iterable[str],
    describe: Callable[[str], D],
    classes: Classes[D],
) -> Message | PiecewiseResponse:
    """Answer in pieces: each group has its own result, once. `describe` may raise `KafkaError`."""
    build: Callable[..., Message] = classes.response

    def make(group_id: str) -> tuple[D, int]:
        try:
            group = describe(group_id)
        except errors.KafkaError as error:
            group = classes.group(group_id=group_id, error_code=error.code, error_message=str(error))
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = broker.authorized_operations(context, ResourceType.GROUP, group_id)
        return group, _GROUP_WEIGHT + _MEMBER_WEIGHT * len(group.members)

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(classes.response, "groups", context.api_version),
        dict.fromkeys(group_ids),
        make,
        lambda groups: build(groups=groups),
    )
