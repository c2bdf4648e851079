"""Kafka's codes for what a request does (`AclOperation`) and to what (`ResourceType`); KIP-11, KIP-430."""

from __future__ import annotations

from collections.abc import Iterable


class AclOperation:
    """The codes of AclOperation, as they stand in ACLs and in the `authorized operations` bit fields."""

    UNKNOWN, ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER = range(8)
    DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(8, 13)
    CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT = range(13, 16)


class ResourceType:
    """The codes of ResourceType."""

    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


def bit_field(operations: Iterable[int]) -> int:
    """The operations as the bit field of KIP-430: bit n stands for operation n."""
    field = 0
    for operation in operations:
        field |= 1 << operation
    return field


_OP = AclOperation
#: What each resource supports, which is what a principal without any restriction is authorized to do (KIP-430).
AUTHORIZED_OPERATIONS = {
    ResourceType.TOPIC: bit_field(
        (_OP.READ, _OP.WRITE, _OP.CREATE, _OP.DESCRIBE, _OP.DELETE, _OP.ALTER, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS)
    ),
    ResourceType.GROUP: bit_field((_OP.READ, _OP.DESCRIBE, _OP.DELETE, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS)),
    ResourceType.CLUSTER: bit_field(
        (
            _OP.CREATE,
            _OP.CLUSTER_ACTION,
            _OP.DESCRIBE_CONFIGS,
            _OP.ALTER_CONFIGS,
            _OP.IDEMPOTENT_WRITE,
            _OP.ALTER,
            _OP.DESCRIBE,
        )
    ),
}

#: Stands in an `authorized operations` field that was not asked for.
OPERATIONS_NOT_REQUESTED = -(2**31)
