"""The id of a broker whose settings name none: of its data directory, or the next one in ZooKeeper (KafkaServer)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.log.checkpoint_files import META_PROPERTIES, read_meta_properties
from barnabas.broker.zookeeper.one_program import carry_out
from barnabas.broker.zookeeper.operations import NoNodeError, Program, SetData, expect, make_missing
from barnabas.broker.zookeeper.znodes import SEQUENCE_ID
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.zookeeper.operations import ZooKeeperSession

#: `broker.id` of a broker that has to be given one.
UNKNOWN = -1


def known_broker_id(filesystem: FileSystem, directories: Sequence[str]) -> int | None:
    """Return whose the data directories are, as either software has written it; None for empty ones.

    Raises `ConfigError` where they belong to several brokers, and `CorruptCheckpointError`.
    """
    found = {path: read_meta_properties(filesystem, f"{path}/{META_PROPERTIES}") for path in directories}
    ids = {path: owner.node_id for path, owner in found.items() if owner is not None and owner.node_id >= 0}
    if len(set(ids.values())) > 1:
        said = ", ".join(f"{path} to broker {owner}" for path, owner in ids.items())
        raise ConfigError(f"log.dirs: the directories belong to several brokers: {said}; name those of one")
    return next(iter(ids.values()), None)


def next_broker_id(reserved: int) -> Program[int]:
    """Take the next number above the reserved ones: each write of the znode has another version."""
    while True:
        (result,) = yield [SetData(SEQUENCE_ID, None)]
        if not isinstance(result, NoNodeError):
            return reserved + expect(result, int)
        yield from make_missing((SEQUENCE_ID.rpartition("/")[0], SEQUENCE_ID))


async def take_broker_id(session: ZooKeeperSession, timeout: float, reserved: int) -> int:
    """Connect, and return the next id; the session is closed then. An id that is lost on the way is never used.

    Raises `KafkaTimeoutError` without an answer in `timeout` seconds, and `ZooKeeperError`.
    """
    return await carry_out(session, timeout, partial(next_broker_id, reserved), "broker.id=-1: no id was given")
