"""What each API of a controller asks of a principal (ControllerApis), one row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.security.request_rules import RULES, cluster
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kinds import AclOperation as Op

if TYPE_CHECKING:
    from barnabas.broker.security.request_rules import Rule

_NODES_ONLY = cluster(Op.CLUSTER_ACTION)

CONTROLLER_RULES: dict[int, Rule] = {
    **RULES,
    # What brokers and other controllers ask in their own names.
    **dict.fromkeys(
        (
            ApiKey.FETCH,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.UPDATE_RAFT_VOTER,
            ApiKey.ALTER_PARTITION,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            ApiKey.BROKER_REGISTRATION,
            ApiKey.BROKER_HEARTBEAT,
            ApiKey.CONTROLLER_REGISTRATION,
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.ENVELOPE,
        ),
        _NODES_ONLY,
    ),
}
"""Broker's rules where the controller's are the same: topics, settings, quotas, ACLs, users, tokens, features."""
