"""What `barnabas format` and a first start write: as `kafka-storage` does, and read by the node that starts on it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
from barnabas.broker.kraft.formatter import (
    Format,
    chosen_levels,
    default_levels,
    format_directories,
    initial_voters,
    is_formatted,
    scram_records,
    standalone_voters,
    voters_snapshot,
)
from barnabas.broker.kraft.quorum_storage import QuorumStorage, is_alone
from barnabas.broker.log.checkpoint_files import encode_uuid
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.security.scram_arguments import parse_scram
from barnabas.broker.security.scram_users import Alterations
from barnabas.errors import ConfigError, KafkaStorageError
from barnabas.protocol.kafka_uuid import ZERO_UUID as ZERO
from barnabas.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from tests.support.core_controller import CONTROLLER_SETTINGS, CoreController

_CHANCE = random.Random(1)
_DYNAMIC = {
    **{name: value for name, value in CONTROLLER_SETTINGS.items() if "voters" not in name},
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}


def _wanted(levels: dict[str, int], **given: object) -> Format:
    return Format("cluster", 100, BootstrapMetadata.of_levels(levels))._replace(**given)  # type: ignore[arg-type]


def test_a_new_cluster_is_at_the_levels_of_its_release() -> None:
    assert default_levels("3.8") == {"metadata.version": 20}
    assert default_levels("4.0") == {"metadata.version": 25, "group.version": 1, "transaction.version": 2}
    assert default_levels("4.1-IV1")["eligible.leader.replicas.version"] == 1
    assert default_levels("4.2-IV0").keys() ^ default_levels("4.2").keys() == {"streams.version"}
    assert default_levels()["metadata.version"] == 30
    with pytest.raises(ConfigError, match=r"4\.3-IV0"):
        default_levels("5")


def test_other_levels_are_chosen_by_name_where_they_go_together() -> None:
    def chosen(*features: str, release: str | None = None) -> dict[str, int]:
        return chosen_levels(release, features, do_voters_change=True)

    assert chosen("group.version=0", release="4.0")["group.version"] == 0
    assert chosen("metadata.version=24") == {**default_levels("4.0-IV2"), "kraft.version": 1}
    for wrong in (
        *("group.version=7", "group.version", "unheard.of=1", "share.version=2", "metadata.version=31"),
        *("metadata.version=2", "kraft.version=0", "kraft.version=2"),
    ):
        with pytest.raises(ConfigError, match="--feature"):
            chosen(wrong)
    with pytest.raises(ConfigError, match="give one of them"):
        chosen("metadata.version=24", release="4.0")
    with pytest.raises(ConfigError, match=r"depends on metadata\.version level 23"):
        chosen("eligible.leader.replicas.version=1", release="3.9")
    with pytest.raises(ConfigError, match="it is 1 with --standalone"):
        chosen_levels(None, ["kraft.version=1"], do_voters_change=False)


def test_what_was_formatted_outlives_a_loss_of_power() -> None:
    for seed in range(20):
        filesystem = MemoryFileSystem(random.Random(seed))
        filesystem.has_journal = False
        format_directories(filesystem, _wanted(default_levels()), ["/data", "/more"], _CHANCE.randbytes)
        filesystem.power_loss()
        assert [is_formatted(filesystem, path) for path in ("/data", "/more")] == [True, True]


def test_a_start_goes_by_what_was_formatted() -> None:
    filesystem = MemoryFileSystem(random.Random(1))
    levels = default_levels("4.0")
    assert format_directories(filesystem, _wanted(levels), ["/data"], _CHANCE.randbytes) == ["/data"]
    controller = CoreController(filesystem=filesystem)
    assert controller.node.cluster_id == "cluster"
    image = controller.node.controller.committed_image
    assert dict(image.features) == levels


def test_initial_voters_are_in_the_first_snapshot_and_lead() -> None:
    filesystem = MemoryFileSystem(random.Random(1))
    directory = bytes(range(16))
    voters = initial_voters(f"100@127.0.0.1:9093:{encode_uuid(directory)}", "CONTROLLER")
    wanted = _wanted(default_levels(), voters=voters, directory_id=directory)
    format_directories(filesystem, wanted, ["/data", "/more"], _CHANCE.randbytes)
    assert is_formatted(filesystem, "/more")
    storage = QuorumStorage(BrokerConfig(_DYNAMIC), "/data", filesystem, _CHANCE.randbytes)
    assert storage.directory_id == directory
    storage.close()
    controller = CoreController({**_DYNAMIC, "controller.quorum.voters": None}, filesystem)
    assert controller.node.controller.is_active
    assert controller.node.controller.kraft_version == 1


@pytest.mark.parametrize("do_voters_change", [True, False])
def test_a_start_goes_by_what_a_later_release_has_formatted(do_voters_change: bool) -> None:
    """KIP-1170: all is in the first snapshot of the log, with static voters too, and `bootstrap.checkpoint` is gone."""
    filesystem = MemoryFileSystem(random.Random(1))
    directory, levels = bytes(range(16)), default_levels("4.0")
    voters = initial_voters(f"100@127.0.0.1:9093:{encode_uuid(directory)}", "CONTROLLER") if do_voters_change else None
    alice = dict([parse_scram("SCRAM-SHA-256=[name=alice,password=secret]")])
    bootstrap = BootstrapMetadata([*BootstrapMetadata.of_levels(levels).records, *scram_records(alice)])
    wanted = _wanted(default_levels(), voters=voters, directory_id=directory)
    format_directories(filesystem, wanted, ["/data"], _CHANCE.randbytes)
    filesystem.remove("/data/bootstrap.checkpoint")
    filesystem.make_directory("/data/__cluster_metadata-0")
    first = "/data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    filesystem.replace(first, voters_snapshot(voters, bootstrap), sync=True)

    settings = {**_DYNAMIC, "controller.quorum.voters": None} if do_voters_change else {}
    controller = CoreController(settings, filesystem)
    assert controller.node.controller.is_active
    image = controller.node.controller.committed_image
    assert {name: level for name, level in image.features.items() if name != "kraft.version"} == levels
    assert [name for name, _ in image.scram_credentials] == ["alice"]
    # Others have no such snapshot: they read it from the log.
    assert controller.node.raft.replica.log_end.offset > len(bootstrap.records)


def test_a_directory_of_another_node_is_left_alone() -> None:
    filesystem = MemoryFileSystem(random.Random(1))
    format_directories(filesystem, _wanted(default_levels()), ["/data"], _CHANCE.randbytes)
    with pytest.raises(KafkaStorageError, match="belongs to node 100"):
        format_directories(filesystem, _wanted(default_levels(), node_id=5), ["/data"], _CHANCE.randbytes)
    with pytest.raises(KafkaStorageError, match="belongs to the cluster cluster"):
        format_directories(filesystem, _wanted(default_levels(), cluster_id="x"), ["/data"], _CHANCE.randbytes)


def test_what_cannot_be_initial_voters_is_refused() -> None:
    for wrong in ("100", "100@host:9093", "100@host:9093:short", "a@host:1:AAAAAAAAAAAAAAAAAAAAAQ"):
        with pytest.raises(ConfigError, match="DIRECTORY-ID"):
            initial_voters(wrong, "CONTROLLER")


def test_only_a_node_that_is_all_of_its_quorum_is_alone() -> None:
    assert is_alone(BrokerConfig(CONTROLLER_SETTINGS))
    assert is_alone(BrokerConfig(_DYNAMIC))
    elsewhere = {**_DYNAMIC, "controller.quorum.bootstrap.servers": "other:9093"}
    assert not is_alone(BrokerConfig(elsewhere))
    several = {**_DYNAMIC, "controller.quorum.bootstrap.servers": "127.0.0.1:9093,127.0.0.1:9094"}
    assert not is_alone(BrokerConfig(several))


def test_a_controller_that_formats_itself_begins_with_its_first_users_and_never_again() -> None:
    filesystem, asked = MemoryFileSystem(random.Random(1)), list[bool]()

    def first_users() -> Alterations:
        asked.append(True)
        return dict([parse_scram("SCRAM-SHA-256=[name=alice,password=secret]")])

    config = BrokerConfig(_DYNAMIC)
    for is_first in (True, False):
        storage = QuorumStorage(config, "/data", filesystem, _CHANCE.randbytes, None, first_users)
        users = [one.message for one in storage.bootstrap.records if isinstance(one.message, UserScramCredentialRecord)]
        assert [user.name for user in users] == ["alice"]
        assert storage.has_formatted == is_first
        storage.close()
    assert asked == [True]
    assert CoreController(_DYNAMIC, filesystem).node.controller.committed_image.scram_credentials


def test_what_users_log_in_with_is_readable_by_their_brokers_owner_only(tmp_path: Path) -> None:
    wanted = Format(
        "cluster", 100, BootstrapMetadata.of_levels(default_levels()), standalone_voters(BrokerConfig(_DYNAMIC), ZERO)
    )
    format_directories(OsFileSystem(), wanted, [str(tmp_path / "data")], _CHANCE.randbytes)
    modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "data").iterdir()}
    assert modes.pop("meta.properties")
    assert set(modes) == {"bootstrap.checkpoint", "__cluster_metadata-0"}
    assert not any(modes.values())
