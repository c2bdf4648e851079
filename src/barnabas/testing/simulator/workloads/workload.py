"""What a part of a run has to say of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from barnabas.client.admin.new_topic import NewTopic
    from barnabas.testing.simulator.parts import Parts


class Workload:
    """A part of a run; `SHARE` of the seeds have it."""

    SHARE: ClassVar[float] = 0.25
    #: Settings of the broker that it needs.
    SETTINGS: ClassVar[dict[str, Any]] = {}

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.world = parts.world
        self.random = parts.world.stream(type(self).__name__)

    def topics(self) -> list[NewTopic]:
        """Return the topics to be there before its applications begin."""
        return []

    def cast(self) -> None:
        """Add its applications."""
        raise NotImplementedError

    def check(self) -> None:
        """Hold what it knows against what is there; all applications but the members of groups have ended."""
