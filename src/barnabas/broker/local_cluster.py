"""A cluster on this machine: brokers and controllers, each a process (`barnabas up --brokers`, `Broker(brokers=3)`)."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.node_process import NodeProcess
from barnabas.errors import ConfigError, IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from barnabas.broker.local_cluster_security import ClusterSecurity

#: The ids of controllers begin here; brokers are 1, 2, ...
FIRST_CONTROLLER = 100
_HOST = "127.0.0.1"
#: What a node of a local cluster is given by the cluster itself.
_OWN = ("process.roles", "node.id", "listeners", "log.dirs", "controller.quorum.voters", "controller.listener.names")
_ENOUGH = 3


class Launching(NamedTuple):
    """What options of `barnabas up` a node gets; `is_visible`: nodes write their errors where this process does."""

    options_of: Callable[[int], Sequence[str]] = lambda node_id: ()
    is_visible: bool = False


class LocalCluster:
    """Brokers 1 to N and controllers 100, 101, ..., each with a directory and a `.properties` file in `data_dir`.

    `listen` has an address for each broker, port 0 for any free one. `security` is for one that others reach, too,
    and `has_formatted` tells whether its users are there since now. Raises `ConfigError` for settings that are
    the cluster's own.
    """

    def __init__(
        self,
        data_dir: str,
        listen: Sequence[str],
        settings: Mapping[str, str],
        *,
        controllers: int = 1,
        launching: Launching | None = None,
        security: ClusterSecurity | None = None,
    ) -> None:
        wrong = sorted(set(_OWN) & settings.keys())
        if wrong:
            raise ConfigError(f"{', '.join(wrong)}: of several brokers each has its own, which the cluster sets")
        if os.path.exists(f"{data_dir}/metadata.sqlite"):
            raise ConfigError(f"{data_dir} has the data of a broker that is alone: choose another directory")
        self._data_dir = data_dir
        self._settings = dict(settings)
        self._launching = launching or Launching()
        self._security = security
        self.has_formatted = False
        self.addresses = dict(enumerate(listen, 1))
        self._controllers = {FIRST_CONTROLLER + n: f"{_HOST}:{_free_port()}" for n in range(controllers)}
        self._internal = {one: f"{_HOST}:{_free_port()}" for one in self.addresses} if security is not None else {}
        self._running: dict[int, NodeProcess] = {}
        self._format()

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def node_ids(self) -> list[int]:
        """The ids of brokers, then those of controllers."""
        return [*self.addresses, *self._controllers]

    @property
    def controllers(self) -> Mapping[int, str]:
        """The controllers' addresses."""
        return self._controllers

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

    def properties_of(self, node_id: int) -> str:
        """Return the path of a node's file; `barnabas up --config` starts it again."""
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
            for kind in (self._controllers, self.addresses):
                begun = [one for one in wanted if one in kind]
                for one in begun:
                    self._running[one] = self._launch(one)
                for one in begun:
                    address = self._running[one].wait_until_ready()
                    if one in self.addresses:
                        self.addresses[one] = address
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
        for kind in (self.addresses, self._controllers):
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

    def _launch(self, node_id: int) -> NodeProcess:
        path = self.properties_of(node_id)
        # Some of the settings may be secret.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in self._properties(node_id).items())
        options = ["--config", path, "--allow-remote", *self._launching.options_of(node_id)]
        return NodeProcess(options, shares_errors=self._launching.is_visible, has_own_session=True)

    # -- what they are given -----------------------------------------------------------------------------------------

    def _name(self, node_id: int) -> str:
        return f"{'controller' if node_id in self._controllers else 'broker'}-{node_id}"

    def _properties(self, node_id: int) -> dict[str, Any]:
        is_controller = node_id in self._controllers
        copies = min(_ENOUGH, len(self.addresses))
        least = 2 if copies == _ENOUGH else 1
        address = self._controllers[node_id] if is_controller else self.addresses[node_id]
        return {
            "default.replication.factor": copies,
            "min.insync.replicas": least,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": least,
            **self._settings,
            "process.roles": "controller" if is_controller else "broker",
            "node.id": node_id,
            "listeners": f"{'CONTROLLER' if is_controller else 'PLAINTEXT'}://{address}",
            "log.dirs": f"{self._data_dir}/{self._name(node_id)}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{one}@{at}" for one, at in self._controllers.items()),
            **self._secured(node_id),
        }

    def _secured(self, node_id: int) -> dict[str, str]:
        if self._security is None:
            return {}
        if node_id in self._controllers:
            return self._security.of_controller()
        return self._security.of_broker(self.addresses[node_id], self._internal[node_id])

    def _format(self) -> None:
        """Format the controllers' directories where that was not done; brokers take the cluster over by themselves."""
        from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
        from barnabas.broker.kraft.formatter import (
            Format,
            default_levels,
            format_directories,
            random_uuid_text,
            scram_records,
        )
        from barnabas.broker.log.checkpoint_files import META_PROPERTIES, read_meta_properties
        from barnabas.broker.log.os_filesystem import OsFileSystem

        os.makedirs(self._data_dir, exist_ok=True)
        filesystem = OsFileSystem()
        paths = {one: f"{self._data_dir}/{self._name(one)}" for one in self._controllers}
        known = [read_meta_properties(filesystem, f"{path}/{META_PROPERTIES}") for path in paths.values()]
        ids = [found.cluster_id for found in known if found is not None and found.cluster_id]
        cluster_id = ids[0] if ids else random_uuid_text(os.urandom)
        self.has_formatted = not ids
        users = [] if self._security is None else scram_records(self._security.users)
        bootstrap = BootstrapMetadata([*BootstrapMetadata.of_levels(default_levels()).records, *users])
        for node_id, path in paths.items():
            wanted = Format(cluster_id, node_id, bootstrap)
            format_directories(filesystem, wanted, [path], os.urandom)


def consecutive(address: str, count: int) -> list[str]:
    """Return `count` addresses from one on, port by port; port 0 stays. Raises `ConfigError`."""
    from barnabas.broker.config import join_address, parse_address

    host, port = parse_address(address)
    if port + count - 1 > 0xFFFF:
        raise ConfigError(f"{address}: there are no {count} ports from there on")
    return [join_address(host, port + number if port else 0) for number in range(count)]


def _free_port() -> int:
    """Return a free port that the system gives to no other socket for a minute: it remembers a connection there."""
    with socket.create_server((_HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        with socket.create_connection((_HOST, port)):
            accepted, _ = listener.accept()
            accepted.close()  # the side that closes first is the one that waits
    return port
