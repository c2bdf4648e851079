"""Which APIs are served, in which versions, by which module.

A handler module is imported when its first request arrives, so that a broker starts fast. Each has `API`, `VERSIONS`
(lowest, highest: the same as here), `OPERATION` and `RESOURCE` (what a principal needs, see `barnabas.broker.acl`) and
`handle(broker: BrokerState, context: RequestContext, request: Message) -> Message | DelayedOperation | None`;
None means that the client expects no response.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message

    Handler = Callable[[BrokerState, RequestContext, Any], Message | DelayedOperation | None]
    Shortcut = Callable[[BrokerState, memoryview, int], bytes | None]

#: API key → (module in this package, lowest version, highest version).
SERVED: dict[int, tuple[str, int, int]] = {
    0: ("produce", 3, 13),
    1: ("fetch", 4, 18),
    2: ("list_offsets", 1, 11),
    3: ("metadata", 0, 13),
    8: ("offset_commit", 2, 10),
    9: ("offset_fetch", 1, 10),
    10: ("find_coordinator", 0, 6),
    11: ("join_group", 0, 9),
    12: ("heartbeat", 0, 4),
    13: ("leave_group", 0, 5),
    14: ("sync_group", 0, 5),
    15: ("describe_groups", 0, 6),
    16: ("list_groups", 0, 5),
    18: ("api_versions", 0, 4),
    19: ("create_topics", 2, 7),
    20: ("delete_topics", 1, 6),
    21: ("delete_records", 0, 2),
    22: ("init_producer_id", 0, 6),
    23: ("offset_for_leader_epoch", 2, 4),
    24: ("add_partitions_to_txn", 0, 5),
    25: ("add_offsets_to_txn", 0, 4),
    26: ("end_txn", 0, 5),
    27: ("write_txn_markers", 1, 2),
    28: ("txn_offset_commit", 0, 5),
    32: ("describe_configs", 1, 4),
    33: ("alter_configs", 0, 2),
    35: ("describe_log_dirs", 1, 5),
    37: ("create_partitions", 0, 3),
    42: ("delete_groups", 0, 2),
    43: ("elect_leaders", 0, 2),
    44: ("incremental_alter_configs", 0, 1),
    45: ("alter_partition_reassignments", 0, 1),
    46: ("list_partition_reassignments", 0, 0),
    47: ("offset_delete", 0, 0),
    48: ("describe_client_quotas", 0, 1),
    49: ("alter_client_quotas", 0, 1),
    57: ("update_features", 0, 2),
    60: ("describe_cluster", 0, 2),
    61: ("describe_producers", 0, 0),
    65: ("describe_transactions", 0, 0),
    66: ("list_transactions", 0, 2),
    68: ("consumer_group_heartbeat", 0, 1),
    69: ("consumer_group_describe", 0, 1),
    71: ("get_telemetry_subscriptions", 0, 0),
    72: ("push_telemetry", 0, 0),
    74: ("list_config_resources", 0, 1),
    75: ("describe_topic_partitions", 0, 0),
}

#: API key → (module in this package, lowest version, highest version), for what is asked so often that it has a short
#: way: `answer(broker, frame, now_ms) -> bytes | None` gives the whole response to a plain request, the same as the
#: handler would, or None before anything has happened. Not asked while quotas or observers want to know of requests.
SHORTCUTS: dict[int, tuple[str, int, int]] = {
    0: ("plain_produce", 9, 13),
}

_loaded: dict[int, Handler] = {}


def handler_for(api_key: int) -> Handler:
    """The `handle` function of an API in `SERVED`."""
    handle = _loaded.get(api_key)
    if handle is None:
        handle = _loaded[api_key] = import_module(f"barnabas.broker.handlers.{SERVED[api_key][0]}").handle
    return handle


def shortcut_for(api_key: int, version: int) -> Shortcut | None:
    """The `answer` function of an API in `SHORTCUTS`, in a version that it knows."""
    module, lowest, highest = SHORTCUTS.get(api_key, ("", 0, -1))
    if not lowest <= version <= highest:
        return None
    shortcut: Shortcut = import_module(f"barnabas.broker.handlers.{module}").answer
    return shortcut
