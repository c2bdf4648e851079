"""What controls the brokers of a cluster on this machine: controllers of a quorum, or a ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    #: Starts a node of ours by its id and settings.
    Run = Callable[[int, Mapping[str, object]], "ChildNode"]

#: The ids of controllers begin here; brokers are 1, 2, ...
FIRST_CONTROLLER = 100
#: The id by which a ZooKeeper is started and ended.
ZOOKEEPER = 200


class ControlledBy(NamedTuple):
    """How many controllers a cluster has, or its ZooKeeper: as `zookeeper.connect` has it, "" for one of its own."""

    controllers: int = 1
    zookeeper: str | None = None


class ChildNode(Protocol):
    """A child process that is a node, and dies with this one (see `NodeProcess`)."""

    @property
    def pid(self) -> int:
        """The process id."""

    @property
    def exit_code(self) -> int | None:
        """How it has ended, as `subprocess` says it; None while it runs."""

    def log_text(self) -> str:
        """Return what it wrote to its standard error, where that is not its parent's."""

    def wait_until_ready(self) -> str:
        """Return its address when it answers. Raises `ConfigError` and `KafkaError`; it is gone then."""

    def terminate(self) -> None:
        """Ask it to end cleanly."""

    def stop(self) -> None:
        """End it cleanly."""

    def kill(self) -> None:
        """End it as a crash would."""


class LocalControl(Protocol):
    """The nodes of a cluster on this machine that are no brokers.

    `kind` is what they are called, `own_settings` are those of brokers that the cluster sets, `defaults` hold where
    nothing else is asked for.
    """

    @property
    def kind(self) -> str:
        """See above."""

    @property
    def own_settings(self) -> Sequence[str]:
        """See above."""

    @property
    def defaults(self) -> Mapping[str, object]:
        """See above."""

    @property
    def addresses(self) -> Mapping[int, str]:
        """Where each of them listens."""

    def of_broker(self, node_id: int) -> Mapping[str, object]:
        """Return the settings by which a broker is in the cluster."""

    def admit_users(self, settings: Mapping[str, object]) -> None:
        """Have the first users there before the first broker starts, which has these settings. Raises `KafkaError`."""

    def launch(self, node_id: int, run: Run) -> ChildNode:
        """Start a node; `run` starts one that is ours, by its settings."""
