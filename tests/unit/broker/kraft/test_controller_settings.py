"""Each setting of a controller reaches what goes by it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.broker.broker_state import BrokerState
from barnabas.broker.config import BrokerConfig
from barnabas.broker.controller.controller_managers import ControllerSettings
from barnabas.broker.kraft.controller_node import raft_config, snapshot_limits
from barnabas.broker.kraft.quorum_storage import QuorumStorage
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from tests.support.core_controller import CONTROLLER_SETTINGS, CoreController

_RAFT = {
    "controller.quorum.append.linger.ms": "append_linger",
    "controller.quorum.election.backoff.max.ms": "election_backoff_max",
    "controller.quorum.election.timeout.ms": "election_timeout",
    "controller.quorum.fetch.timeout.ms": "fetch_timeout",
    "controller.quorum.request.timeout.ms": "request_timeout",
    "controller.quorum.retry.backoff.ms": "retry_backoff",
}


def _config(**given: Any) -> BrokerConfig:
    return BrokerConfig({**CONTROLLER_SETTINGS, **given})


def _raft(config: BrokerConfig) -> Any:
    storage = QuorumStorage(config, "/data", MemoryFileSystem(random.Random(1)), random.Random(1).randbytes)
    return raft_config(config, storage, {"CONTROLLER": ("127.0.0.1", 9093)})


@pytest.mark.parametrize("setting", sorted(_RAFT))
def test_times_of_the_quorum(setting: str) -> None:
    assert getattr(_raft(_config(**{setting: 1234})), _RAFT[setting]) == 1.234


def test_a_controller_may_become_a_voter_by_itself() -> None:
    assert _raft(_config(**{"controller.quorum.auto.join.enable": "true"})).auto_join


def test_voters_and_bootstrap_servers_are_known_to_the_quorum() -> None:
    servers = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093,b:2"}
    asked = _raft(_config(**servers))
    assert [(node.host, node.port) for node in asked.bootstrap] == [("127.0.0.1", 9093), ("b", 2)]
    assert asked.static_voters.ids == [100]


def test_times_of_the_controller() -> None:
    given = {"broker.session.timeout.ms": 1000, "metadata.max.idle.interval.ms": 2000}
    found = ControllerSettings.of(_config(**given), "cluster")
    assert (found.session_timeout, found.max_idle_interval) == (1.0, 2.0)


def test_leaders_are_balanced_at_an_interval_or_not_at_all() -> None:
    often = _config(**{"leader.imbalance.check.interval.seconds": 7})
    assert ControllerSettings.of(often, "cluster").leader_imbalance_check_interval == 7
    never = _config(**{"auto.leader.rebalance.enable": "false"})
    assert ControllerSettings.of(never, "cluster").leader_imbalance_check_interval is None


def test_a_snapshot_is_due_after_so_many_bytes_or_so_long() -> None:
    given = {"metadata.log.max.record.bytes.between.snapshots": 77, "metadata.log.max.snapshot.interval.ms": 5000}
    assert snapshot_limits(_config(**given)) == (77, 5.0)


def test_the_log_lies_where_it_is_told_to() -> None:
    controller = CoreController({"metadata.log.dir": "/metadata"})
    assert controller.filesystem.exists("/metadata/__cluster_metadata-0/quorum-state")


def test_snapshots_and_segments_are_bounded() -> None:
    """The log rolls its segments, and drops what the newest snapshot has, by size and by age."""
    given = {
        "metadata.log.segment.bytes": 8_388_608, "metadata.log.segment.ms": 4000,
        "metadata.max.retention.bytes": 2000, "metadata.max.retention.ms": 3000,
    }  # fmt: skip
    settings = CoreController(given).node.raft.replica.log._settings  # type: ignore[attr-defined]
    assert settings == given


def test_listeners_of_controllers_are_not_those_of_brokers() -> None:
    both = {
        "process.roles": "broker,controller", "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "controller.quorum.voters": "100@127.0.0.1:2,101@127.0.0.1:3",
    }  # fmt: skip
    config = _config(**both)
    assert config.is_controller
    assert config.is_member
    assert [one.port for one in config.listeners] == [1]
    assert [one.port for one in config.of_controller().listeners] == [2]
    state = BrokerState(config.of_controller(), random.Random(1))
    assert state.node_id == 100
