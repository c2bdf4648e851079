"""Kinds of things that the protocol numbers: operations, resources, sources of settings, isolation levels and others.

The numbers are those of the classes of the same name in Apache Kafka. A `ProtocolEnum` reads any number that is not in
it as UNKNOWN, for a newer broker may send one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from barnabas.protocol.protocol_enum import ProtocolEnum

AUTHORIZED_OPERATIONS_NOT_REQUESTED: Final = -(2**31)
"""Stands in an `authorized operations` field that was not asked for (KIP-430)."""


class AclOperation(ProtocolEnum):
    """What may be done (KIP-11); also the bits of an `authorized operations` field (KIP-430)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(ProtocolEnum):
    """Whether it may be done."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourceType(ProtocolEnum):
    """To what it may be done."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(ProtocolEnum):
    """How the name of a resource is meant.

    ANY and MATCH are for filters: MATCH finds the patterns that apply to the resource of that name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class ConfigResourceType(IntEnum):
    """What has settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(ProtocolEnum):
    """Where the value of a setting comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(ProtocolEnum):
    """What kind of value a setting takes."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class OpType(IntEnum):
    """What to do with a setting; `APPEND` and `SUBTRACT` are for settings that are lists (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class IsolationLevel(IntEnum):
    """Which records a reader sees (KIP-98).

    All up to the high watermark, or no aborted ones, up to the last stable offset.
    """

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def isolation_level(number: int) -> IsolationLevel:
    """Return the level of a request; for any other number that of all records."""
    return _LEVELS.get(number, IsolationLevel.READ_UNCOMMITTED)


_LEVELS: Final = {level.value: level for level in IsolationLevel}


class CoordinatorType(IntEnum):
    """Whose coordinator is asked for: the key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class AcknowledgementKind(IntEnum):
    """What a share consumer says of a record (KIP-932, KIP-1222); GAP: there is none at that offset."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class ControlRecordType(IntEnum):
    """The control records that end a transaction in a partition.

    There are other types, which brokers of a quorum write for themselves.
    """

    ABORT = 0
    COMMIT = 1


class ElectionType(IntEnum):
    """Which replica is to lead.

    The first one in the list of replicas, or any that is alive, even if it does not have all records (UNCLEAN).
    """

    PREFERRED = 0
    UNCLEAN = 1


class EndpointType(ProtocolEnum):
    """What listens at an address (KIP-919)."""

    UNKNOWN = 0
    BROKER = 1
    CONTROLLER = 2


class UpgradeType(IntEnum):
    """Which ways a feature's level may change (KIP-584)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


#: The mechanisms of SCRAM by number (ScramMechanism, KIP-554).
SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
