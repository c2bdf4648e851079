"""What a broker may pass on to the controller in an Envelope, and in whose name (EnvelopeUtils, KIP-590)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.default_principal_data import DefaultPrincipalData

if TYPE_CHECKING:
    from barnabas.protocol.message import Buffer

_PRINCIPAL_VERSION = 0
#: What the controller carries out in every cluster, under KRaft and under ZooKeeper.
OF_CONTROLLERS = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    )
)
ACLS = frozenset((ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS))
#: What goes to the controller unless it is for loggers, which each broker has for itself.
SETTINGS = frozenset((ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS))
#: What goes there unless the broker refuses it itself.
TOKENS = frozenset((ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN))
#: What only a cluster under KRaft has; a broker that is alone does not offer it.
OF_QUORUMS = frozenset(
    (ApiKey.DESCRIBE_QUORUM, ApiKey.UNREGISTER_BROKER, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
)
#: What a client may ask of a controller by way of a broker; all else a broker answers, or asks in its own name.
FORWARDABLE = OF_CONTROLLERS | ACLS | SETTINGS | TOKENS | OF_QUORUMS


def encode_principal(principal: str) -> bytes:
    """Return a principal such as `User:alice` as Kafka's default serde writes it: a version, and the message."""
    kind, _, name = principal.partition(":")
    message = DefaultPrincipalData(type=kind, name=name)
    return _PRINCIPAL_VERSION.to_bytes(2, "big") + message.encode(_PRINCIPAL_VERSION)


def decode_principal(data: Buffer) -> str:
    """Read a principal as Kafka's default serde writes it. Raises `InvalidRequestError`, `ProtocolError`."""
    view = memoryview(data)
    if len(view) < 2 or int.from_bytes(view[:2], "big") != _PRINCIPAL_VERSION:
        raise errors.InvalidRequestError("The envelope's principal is not in a version that is known.")
    found = DefaultPrincipalData.decode(view[2:], _PRINCIPAL_VERSION)
    return f"{found.type}:{found.name}"
