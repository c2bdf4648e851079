"""What the membership core asks of either group protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.client.consumer.membership.messages import Command, Generation
    from barnabas.errors import KafkaError


class GroupMembership(Protocol):
    """One member's side of a group protocol: `ClassicMembership` (classic) or `ConsumerMembershipManager` (KIP-848).

    Belongs to the membership core.
    """

    def process(self, command: Command, now: float) -> None:
        """Take a command of the application's core."""

    def take_leave(self) -> None:
        """Be out of the group after an error, posting `MembershipLost`; tell the coordinator as soon as it is found.

        A static member stays in the group.
        """

    def tick(self, now: float) -> None:
        """Do what is due."""

    def time_to_next_tick(self, now: float) -> float:
        """Seconds until `tick` has something to do, answers apart."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing more has to be said to the coordinator before the connection is closed."""

    def commit_as(self, asked: Generation) -> Generation:
        """As whom to send a commit that was asked for as member of the generation `asked`.

        Raises `RebalanceInProgressError` or `CommitFailedError` where it must not be sent.
        """

    def commit_refused(self, sent: Generation, error: KafkaError) -> bool:
        """Take note of what the coordinator said to a commit sent as `sent`; tells whether another try may help."""
