"""Every API of Kafka is served or said not to be; what it needs is what Kafka's documentation says."""

from __future__ import annotations

import pytest

from barnabas.broker.handlers.not_served import NOT_SERVED
from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ResourceType as Res
from tools.api_table import NEEDS, PATH, table

_READ_GROUP = {(Op.READ, Res.GROUP)}
_DESCRIBE_CLUSTER = {(Op.DESCRIBE, Res.CLUSTER)}
_DESCRIBE_TOPIC = {(Op.DESCRIBE, Res.TOPIC)}
_DESCRIBE_TRANSACTION = {(Op.DESCRIBE, Res.TRANSACTIONAL_ID)}
_ALTER_CLUSTER = {(Op.ALTER, Res.CLUSTER)}
_WRITE_TRANSACTION = {(Op.WRITE, Res.TRANSACTIONAL_ID)}
_DESCRIBE_CONFIGS = {(Op.DESCRIBE_CONFIGS, Res.CLUSTER)}
_ALTER_CONFIGS = {(Op.ALTER_CONFIGS, Res.CLUSTER)}

_NOTHING = {(Op.ANY, Res.CLUSTER)}

#: The operations and resources per API in "Operations and Resources on Protocols" of Kafka's documentation. It errs
#: twice against Kafka's code, which is followed here: ElectLeaders needs ALTER (not CLUSTER_ACTION) on the cluster, and
#: ConsumerGroupDescribe DESCRIBE (not READ) on the group.
DOCUMENTED: dict[int, set[tuple[int, int]]] = {
    0: _WRITE_TRANSACTION | {(Op.IDEMPOTENT_WRITE, Res.CLUSTER), (Op.WRITE, Res.TOPIC)},
    1: {(Op.CLUSTER_ACTION, Res.CLUSTER), (Op.READ, Res.TOPIC)},
    2: _DESCRIBE_TOPIC,
    3: _DESCRIBE_TOPIC | {(Op.CREATE, Res.CLUSTER), (Op.CREATE, Res.TOPIC)},
    8: _READ_GROUP | {(Op.READ, Res.TOPIC)},
    9: {(Op.DESCRIBE, Res.GROUP)} | _DESCRIBE_TOPIC,
    10: {(Op.DESCRIBE, Res.GROUP)} | _DESCRIBE_TRANSACTION,
    11: _READ_GROUP,
    12: _READ_GROUP,
    13: _READ_GROUP,
    14: _READ_GROUP,
    15: {(Op.DESCRIBE, Res.GROUP)},
    16: _DESCRIBE_CLUSTER | {(Op.DESCRIBE, Res.GROUP)},
    17: _NOTHING,
    18: _NOTHING,
    19: {(Op.CREATE, Res.CLUSTER), (Op.CREATE, Res.TOPIC)},
    20: {(Op.DELETE, Res.TOPIC)},
    21: {(Op.DELETE, Res.TOPIC)},
    22: _WRITE_TRANSACTION | {(Op.IDEMPOTENT_WRITE, Res.CLUSTER)},
    23: {(Op.CLUSTER_ACTION, Res.CLUSTER)} | _DESCRIBE_TOPIC,
    24: _WRITE_TRANSACTION | {(Op.WRITE, Res.TOPIC)},
    25: _WRITE_TRANSACTION | _READ_GROUP,
    26: _WRITE_TRANSACTION,
    27: _ALTER_CLUSTER | {(Op.CLUSTER_ACTION, Res.CLUSTER)},
    28: _WRITE_TRANSACTION | _READ_GROUP | {(Op.READ, Res.TOPIC)},
    29: _DESCRIBE_CLUSTER,
    30: _ALTER_CLUSTER,
    31: _ALTER_CLUSTER,
    32: _DESCRIBE_CONFIGS | {(Op.DESCRIBE_CONFIGS, Res.TOPIC)},
    33: _ALTER_CONFIGS | {(Op.ALTER_CONFIGS, Res.TOPIC)},
    34: _ALTER_CLUSTER,
    35: _DESCRIBE_CLUSTER,
    36: _NOTHING,
    37: {(Op.ALTER, Res.TOPIC)},
    38: {(Op.CREATE_TOKENS, Res.USER)},
    39: _NOTHING,
    40: _NOTHING,
    41: {(Op.DESCRIBE, Res.DELEGATION_TOKEN), (Op.DESCRIBE_TOKENS, Res.USER)},
    42: {(Op.DELETE, Res.GROUP)},
    43: _ALTER_CLUSTER,
    44: _ALTER_CONFIGS | {(Op.ALTER_CONFIGS, Res.TOPIC)},
    45: _ALTER_CLUSTER,
    46: _DESCRIBE_CLUSTER,
    47: {(Op.DELETE, Res.GROUP), (Op.READ, Res.TOPIC)},
    48: _DESCRIBE_CONFIGS,
    49: _ALTER_CONFIGS,
    50: _DESCRIBE_CLUSTER,
    51: _ALTER_CLUSTER,
    57: _ALTER_CLUSTER,
    60: _DESCRIBE_CLUSTER,
    61: {(Op.READ, Res.TOPIC)},
    65: _DESCRIBE_TRANSACTION,
    66: _DESCRIBE_TRANSACTION,
    68: _READ_GROUP,
    69: {(Op.DESCRIBE, Res.GROUP)},
    71: _NOTHING,
    72: _NOTHING,
    74: _DESCRIBE_CONFIGS,
    75: _DESCRIBE_TOPIC,
    76: _READ_GROUP,
    77: {(Op.DESCRIBE, Res.GROUP)},
    78: _READ_GROUP | {(Op.READ, Res.TOPIC)},
    79: _READ_GROUP | {(Op.READ, Res.TOPIC)},
    88: _READ_GROUP | _DESCRIBE_TOPIC,
    89: {(Op.DESCRIBE, Res.GROUP)} | _DESCRIBE_TOPIC,
    90: {(Op.DESCRIBE, Res.GROUP)} | _DESCRIBE_TOPIC,
    91: _READ_GROUP | {(Op.READ, Res.TOPIC)},
    92: {(Op.DELETE, Res.GROUP), (Op.READ, Res.TOPIC)},
    **{key: {(Op.CLUSTER_ACTION, Res.CLUSTER)} for key in range(83, 88)},
}


@pytest.mark.parametrize("key", SERVED)
def test_what_an_api_needs_is_what_kafka_documents(key: int) -> None:
    needed = {need for need, keys in NEEDS.items() if key in keys} or _NOTHING
    assert len(needed) == 1
    assert needed <= DOCUMENTED[key]


def test_every_api_is_served_or_said_not_to_be() -> None:
    assert set(SERVED) | set(NOT_SERVED) == {int(key) for key in ApiKey}
    assert set(SERVED) & set(NOT_SERVED) == set()


def test_the_page_is_current() -> None:
    assert PATH.read_text(encoding="utf-8") == table(), "run: python -m tools.api_table --write"
