"""What handlers see of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Purgatory

if TYPE_CHECKING:
    import random

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.groups.group_coordinator import GroupCoordinator
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
    from barnabas.broker.replica_manager import ReplicaManager


class BrokerState:
    """The parts of one broker, as attributes; one instance per broker, given to every handler.

    - `config`: the settings, `config["num.partitions"]`;
    - `metadata`: topics, their ids and configs, the cluster's id; changes to them;
    - `replica_manager`: partitions: append, fetch, offsets;
    - `group_coordinator`: groups and their committed offsets;
    - `purgatory`: requests that wait;
    - `random`: the injected source of randomness, for ids of members, topics and sessions;
    - `advertised`: listener name → (host, port) as told to clients.
    """

    __slots__ = (
        "advertised",
        "config",
        "group_coordinator",
        "metadata",
        "node_id",
        "purgatory",
        "random",
        "replica_manager",
    )

    config: BrokerConfig
    metadata: ClusterMetadata
    replica_manager: ReplicaManager
    group_coordinator: GroupCoordinator
    node_id: int

    def __init__(self, config: BrokerConfig, random: random.Random):
        self.config = config
        self.node_id = config.node_id
        self.random = random
        self.purgatory = Purgatory()
        self.advertised: dict[str, tuple[str, int]] = {}

    @property
    def cluster_id(self) -> str:
        """The cluster's id: 22 characters, base64 of a uuid."""
        return self.metadata.cluster_id

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Host and port told to clients that came in through `listener`."""
        return self.advertised[listener]
