"""Kafka's codes for what a request does (`AclOperation`) and to what (`ResourceType`); KIP-11, KIP-430."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.protocol.kinds import AclOperation, ResourceType


def bit_field(operations: Iterable[int]) -> int:
    """Return the operations as the bit field of KIP-430: bit n stands for operation n."""
    field = 0
    for operation in operations:
        field |= 1 << operation
    return field


_OP = AclOperation
#: The operations of each resource; a principal without any restriction may do all of them (KIP-430).
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
