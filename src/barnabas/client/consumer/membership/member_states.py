"""The states of a member, and which of them may follow which (Kafka: MemberState)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from barnabas.errors import IllegalStateError


class ClassicState(StrEnum):
    """Where a member of the classic protocol stands."""

    UNJOINED = "unjoined"
    #: JoinGroup has to be sent or answered.
    PREPARING_REBALANCE = "preparing rebalance"
    #: The generation is known, and the assignment is not.
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"


class MemberState(StrEnum):
    """Where a member of the consumer protocol (KIP-848) stands."""

    #: Not in the group: not subscribed, left, put out, or failed. The application's next `Subscribe` begins anew.
    UNSUBSCRIBED = "unsubscribed"
    #: The first heartbeat, with all that describes the member, has to be sent or answered.
    JOINING = "joining"
    #: The application has what the coordinator wants it to have.
    STABLE = "stable"
    #: There is a target that the application has not taken yet.
    RECONCILING = "reconciling"
    #: The application has taken its target, and the coordinator has to be told.
    ACKNOWLEDGING = "acknowledging"


_Classic, _Member = ClassicState, MemberState
_JOINED: Final = frozenset({_Member.JOINING, _Member.STABLE, _Member.RECONCILING, _Member.ACKNOWLEDGING})

#: Each state with those that it may follow. A member may be put out, leave, or have to join anew at any time.
CLASSIC_SOURCES: Final[Mapping[ClassicState, frozenset[ClassicState]]] = {
    _Classic.UNJOINED: frozenset(ClassicState),
    _Classic.PREPARING_REBALANCE: frozenset(ClassicState),
    _Classic.COMPLETING_REBALANCE: frozenset({_Classic.PREPARING_REBALANCE}),
    _Classic.STABLE: frozenset({_Classic.COMPLETING_REBALANCE}),
}
MEMBER_SOURCES: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    _Member.UNSUBSCRIBED: frozenset(MemberState),
    _Member.JOINING: frozenset({_Member.UNSUBSCRIBED}),
    _Member.STABLE: _JOINED,
    _Member.RECONCILING: _JOINED,
    _Member.ACKNOWLEDGING: _JOINED - {_Member.JOINING},
}

State = TypeVar("State", ClassicState, MemberState)


def following(sources: Mapping[State, frozenset[State]], present: State, next_state: State) -> State:
    """Return the next state; raises `IllegalStateError` where it may not follow the present one."""
    if present not in sources[next_state]:
        raise IllegalStateError(f"A member that is {present} cannot become {next_state}")
    return next_state
