"""The controllers of a cluster on this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from barnabas.broker.local_control import FIRST_CONTROLLER
from barnabas.broker.local_ports import free_address
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.local_cluster_security import ClusterSecurity
    from barnabas.broker.local_control import ChildNode, Run


class LocalQuorum:
    """Implements `LocalControl` by controllers 100, 101, ..., each with a directory in `data_dir`.

    Their directories are formatted here where that was not done; brokers take the cluster over by themselves.
    """

    kind = "controller"
    own_settings = ("process.roles", "node.id", "controller.quorum.voters", "controller.listener.names")
    defaults: Mapping[str, object] = {}

    def __init__(self, data_dir: str, controllers: int, security: ClusterSecurity | None) -> None:
        if os.path.isdir(f"{data_dir}/zookeeper"):
            raise ConfigError(
                f"{data_dir} has a cluster whose metadata are in a ZooKeeper of its own: start it with --zookeeper, or "
                "choose another directory"
            )
        self._data_dir = data_dir
        self._security = security
        self.addresses = {FIRST_CONTROLLER + number: free_address() for number in range(controllers)}
        is_new = self._format()
        if security is not None:
            security.check_users(is_new)

    def of_broker(self, node_id: int) -> Mapping[str, object]:
        """See `LocalControl`."""
        return {"process.roles": "broker", "node.id": node_id, **self._quorum()}

    def admit_users(self, settings: Mapping[str, object]) -> None:
        """See `LocalControl`: they are in what was formatted."""

    def launch(self, node_id: int, run: Run) -> ChildNode:
        """See `LocalControl`."""
        secured = {} if self._security is None else self._security.of_controller()
        own = {"process.roles": "controller", "node.id": node_id, "log.dirs": self._directory(node_id)}
        return run(
            node_id, {**own, "listeners": f"CONTROLLER://{self.addresses[node_id]}", **self._quorum(), **secured}
        )

    def _quorum(self) -> dict[str, object]:
        voters = ",".join(f"{one}@{at}" for one, at in self.addresses.items())
        return {"controller.listener.names": "CONTROLLER", "controller.quorum.voters": voters}

    def _directory(self, node_id: int) -> str:
        return f"{self._data_dir}/{self.kind}-{node_id}"

    def _format(self) -> bool:
        """Format the directories where that was not done; returns whether none was."""
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
        paths = {one: self._directory(one) for one in self.addresses}
        known = [read_meta_properties(filesystem, f"{path}/{META_PROPERTIES}") for path in paths.values()]
        ids = [found.cluster_id for found in known if found is not None and found.cluster_id]
        cluster_id = ids[0] if ids else random_uuid_text(os.urandom)
        users = [] if self._security is None else scram_records(self._security.users)
        bootstrap = BootstrapMetadata([*BootstrapMetadata.of_levels(default_levels()).records, *users])
        for node_id, path in paths.items():
            wanted = Format(cluster_id, node_id, bootstrap)
            format_directories(filesystem, wanted, [path], os.urandom)
        return not ids
