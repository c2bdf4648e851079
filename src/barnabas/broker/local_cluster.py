"""A cluster on this machine, each node a process (`barnabas up --brokers`, `Broker(brokers=3)`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.local_control import FIRST_CONTROLLER, ZOOKEEPER, ControlledBy
from barnabas.broker.local_ports import free_address
from barnabas.broker.node_process import NodeProcess
from barnabas.errors import ConfigError, IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from barnabas.broker.local_cluster_security import ClusterSecurity
    from barnabas.broker.local_control import ChildNode, LocalControl

__all__ = ["FIRST_CONTROLLER", "ZOOKEEPER", "ControlledBy", "Launching", "LocalCluster", "consecutive"]

#: What a node of a local cluster is given by the cluster itself.
_OWN = ("listeners", "log.dirs")
_ENOUGH = 3


class Launching(NamedTuple):
    """What options of `barnabas up` a node gets; `is_visible`: nodes write their errors where this process does."""

    options_of: Callable[[int], Sequence[str]] = lambda node_id: ()
    is_visible: bool = False


class LocalCluster:
    """Brokers 1 to N, each with a directory and a `.properties` file in `data_dir`, and what controls them.

    `listen` has an address for each broker, port 0 for any free one. `security` is for one that others reach, too.
    Raises `ConfigError` for settings that are the cluster's own.
    """

    def __init__(
        self,
        data_dir: str,
        listen: Sequence[str],
        settings: Mapping[str, str],
        *,
        controlled_by: ControlledBy = ControlledBy(),  # noqa: B008 - immutable
        launching: Launching | None = None,
        security: ClusterSecurity | None = None,
    ) -> None:
        if os.path.exists(f"{data_dir}/metadata.sqlite"):
            raise ConfigError(f"{data_dir} has the data of a broker that is alone: choose another directory")
        self._data_dir = data_dir
        self._settings = dict(settings)
        self._launching = launching or Launching()
        self._security = security
        self._control = _control(data_dir, controlled_by, security, settings, is_visible=self._launching.is_visible)
        wrong = sorted({*_OWN, *self._control.own_settings} & settings.keys())
        if wrong:
            raise ConfigError(f"{', '.join(wrong)}: of several brokers each has its own, which the cluster sets")
        self.addresses = dict(enumerate(listen, 1))
        self._internal = {one: free_address() for one in self.addresses} if security is not None else {}
        self._running: dict[int, ChildNode] = {}

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def node_ids(self) -> list[int]:
        """The ids of brokers, then those of what controls them."""
        return [*self.addresses, *self._control.addresses]

    @property
    def controllers(self) -> Mapping[int, str]:
        """The addresses of controllers, or of a ZooKeeper of its own."""
        return self._control.addresses

    def kind(self, node_id: int) -> str:
        """Return what a node is: a broker, a controller, a ZooKeeper."""
        return "broker" if node_id in self.addresses else self._control.kind

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, whether they run or not."""
        return ",".join(self.addresses.values())

    def pid(self, node_id: int) -> int | None:
        """Return the id of a node's process; None while it does not run."""
        found = self._running.get(node_id)
        return None if found is None else found.pid

    def log_text(self) -> str:
        """Return what the processes that run have written to their standard errors."""
        return "".join(process.log_text() for _, process in sorted(self._running.items()))

    def options_of(self, node_id: int) -> list[str]:
        """Return the options of the `barnabas up` that a node is, by which it is started again."""
        return ["--config", self.properties_of(node_id), "--allow-remote", *self._launching.options_of(node_id)]

    def properties_of(self, node_id: int) -> str:
        """Return the path of a node's file."""
        return f"{self._data_dir}/{self._name(node_id)}.properties"

    def take_ended(self) -> Iterator[tuple[int, int]]:
        """Give the nodes whose processes have ended by themselves, once, with their exit codes."""
        for node_id, process in list(self._running.items()):
            code = process.exit_code
            if code is not None:
                self._running.pop(node_id).kill()
                yield node_id, code

    # -- their lives -------------------------------------------------------------------------------------------------

    def start(self, node_id: int | None = None) -> None:
        """Start a node, or all that do not run, and return when clients are sent there. Raises as `NodeProcess`."""
        wanted = self.node_ids if node_id is None else [self._checked(node_id)]
        wanted = [one for one in wanted if one not in self._running]
        try:
            for kind in (self._control.addresses, self.addresses):
                begun = [one for one in wanted if one in kind]
                if begun and kind is self.addresses:
                    self._control.admit_users({**self._of_all(), **self._of_broker(begun[0])})
                for one in begun:
                    self._running[one] = self._launch(one)
                for one in begun:
                    self._hold(one, self._running[one].wait_until_ready())
        except BaseException:
            for one in wanted:
                if one in self._running:
                    self._running.pop(one).kill()
            raise

    def begin(self, node_id: int) -> None:
        """Start a node that does not run, where it was, and do not wait for it; `take_ended` tells if it fails."""
        self._running[self._checked(node_id)] = self._launch(node_id)

    def stop(self, node_id: int | None = None) -> None:
        """End a node cleanly, or all: first the brokers, which hand their partitions over to each other."""
        for kind in (self.addresses, self._control.addresses):
            ending = [one for one in kind if one in self._running and node_id in (None, one)]
            for one in ending:
                self._running[one].terminate()
            for one in ending:
                self._running.pop(one).stop()

    def kill(self, node_id: int | None = None) -> None:
        """End a node with SIGKILL, or all. Raises `IllegalStateError` for one that does not run."""
        if node_id is not None and self._checked(node_id) not in self._running:
            raise IllegalStateError(f"node {node_id} does not run")
        for one in list(self._running) if node_id is None else [node_id]:
            self._running.pop(one).kill()

    def _checked(self, node_id: int) -> int:
        if node_id not in self.node_ids:
            raise IllegalStateError(f"there is no node {node_id}; there are {', '.join(map(str, self.node_ids))}")
        return node_id

    def _launch(self, node_id: int) -> ChildNode:
        if node_id in self.addresses:
            return self._run(node_id, self._of_broker(node_id))
        return self._control.launch(node_id, self._run)

    def _hold(self, node_id: int, address: str) -> None:
        """Keep a port that the system has chosen for later lives, by whichever command they begin."""
        if self.addresses.get(node_id, address) != address:
            self.addresses[node_id] = address
            self._write(node_id, self._of_broker(node_id))

    def _run(self, node_id: int, own: Mapping[str, object]) -> NodeProcess:
        self._write(node_id, own)
        return NodeProcess(self.options_of(node_id), shares_errors=self._launching.is_visible, has_own_session=True)

    def _write(self, node_id: int, own: Mapping[str, object]) -> None:
        path = self.properties_of(node_id)
        # Some of the settings may be secret.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in {**self._of_all(), **own}.items())

    # -- what they are given -----------------------------------------------------------------------------------------

    def _name(self, node_id: int) -> str:
        return f"{self.kind(node_id)}-{node_id}"

    def _of_all(self) -> dict[str, object]:
        copies = min(_ENOUGH, len(self.addresses))
        least = 2 if copies == _ENOUGH else 1
        return {
            "default.replication.factor": copies,
            "min.insync.replicas": least,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": least,
            **self._control.defaults,
            **self._settings,
        }

    def _of_broker(self, node_id: int) -> dict[str, object]:
        address = self.addresses[node_id]
        secured = {} if self._security is None else self._security.of_broker(address, self._internal[node_id])
        return {
            "listeners": f"PLAINTEXT://{address}",
            "log.dirs": f"{self._data_dir}/{self._name(node_id)}",
            **self._control.of_broker(node_id),
            **secured,
        }


def consecutive(address: str, count: int) -> list[str]:
    """Return `count` addresses from one on, port by port; port 0 stays. Raises `ConfigError`."""
    from barnabas.broker.config import join_address, parse_address

    host, port = parse_address(address)
    if port + count - 1 > 0xFFFF:
        raise ConfigError(f"{address}: there are no {count} ports from there on")
    return [join_address(host, port + number if port else 0) for number in range(count)]


def _control(
    data_dir: str,
    wanted: ControlledBy,
    security: ClusterSecurity | None,
    settings: Mapping[str, str],
    *,
    is_visible: bool,
) -> LocalControl:
    """Return what a cluster in a directory is controlled by; a quorum is formatted. Raises `ConfigError`.

    `is_visible`: it writes its errors where this process does.
    """
    if wanted.zookeeper is None:
        from barnabas.broker.local_quorum import LocalQuorum

        return LocalQuorum(data_dir, wanted.controllers, security)
    from barnabas.broker.local_zookeeper import LocalZooKeeper

    return LocalZooKeeper(data_dir, wanted.zookeeper, security, settings, shares_errors=is_visible)
