"""Who can log in to a new cluster, written to ZooKeeper before its brokers start (kafka-configs --zookeeper of old)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.zookeeper.entity_settings import Edits, credential_text
from barnabas.broker.zookeeper.metadata_znodes import edit_settings, read_settings
from barnabas.broker.zookeeper.one_program import carry_out
from barnabas.broker.zookeeper.operations import make_missing
from barnabas.broker.zookeeper.znodes import PERSISTENT, refuse, sanitized

if TYPE_CHECKING:
    from barnabas.broker.security.scram_users import Alterations
    from barnabas.broker.zookeeper.operations import Program, ZooKeeperSession


def write_users(users: Alterations, *, replace: bool) -> Program[None]:
    """Write the credentials of users that have none of that mechanism; with `replace` of all."""
    yield from make_missing(PERSISTENT)
    edits = []
    for (name, mechanism), credential in users.items():
        entity = f"users/{sanitized(name)}"
        (known,) = yield from read_settings([entity], refuse)
        if credential is not None and (replace or mechanism not in (known.values or {})):
            edits.append(Edits(entity, {mechanism: credential_text(credential)}))
    yield from edit_settings(edits)


async def admit_users(session: ZooKeeperSession, timeout: float, users: Alterations, *, replace: bool) -> None:
    """Connect, write the first users, and close the session; with `replace` also where they have other passwords.

    Raises `KafkaTimeoutError` without an answer in `timeout` seconds, and `ZooKeeperError`.
    """
    begin = partial(write_users, users, replace=replace)
    await carry_out(session, timeout, begin, "--secure: the first users were not written")
