"""What the parts of one controller share, for as long as it is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.silent_machines import Silence
    from barnabas.broker.zookeeper.controller.controller_broker_request_batch import ControllerBrokerRequestBatch
    from barnabas.broker.zookeeper.controller.controller_context import ControllerContext
    from barnabas.broker.zookeeper.controller.controller_stats import ControllerStats
    from barnabas.broker.zookeeper.controller.kafka_zk_client import KafkaZkClient


class ControllerSettings(NamedTuple):
    """The settings of this broker by which it is controller; `listener` is the one that brokers are reached by.

    Durations are in seconds; `session_timeout` is how long the session lasts without a server, `silence` how long the
    machines of others may be silent, None where that is for their sessions to decide.
    `allows_unclean_by_default` is asked each time: it may be changed while the broker runs.
    """

    broker_id: int
    listener: str
    allows_unclean_by_default: Callable[[], bool]
    deletes_topics: bool = True
    rebalances: bool = True
    imbalance_percentage: int = 10
    imbalance_interval: float = 300.0
    session_timeout: float = 18.0
    silence: Silence | None = None


class ControllerEnvironment(NamedTuple):
    """The context, its way to ZooKeeper, and batches of requests to brokers."""

    context: ControllerContext
    zk: KafkaZkClient
    settings: ControllerSettings
    new_batch: Callable[[], ControllerBrokerRequestBatch]
    report: Callable[[str], None]
    stats: ControllerStats
