"""What a controller counts: its events by their kind, and what waits (ControllerState, ControllerStats)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from barnabas.broker.metrics.percentiles import Percentiles
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ControllerState(Enum):
    """What a controller is doing; the values are Kafka's."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_FEATURES = 17


_OTHER_TIMERS = {
    ControllerState.BROKER_CHANGE: "LeaderElection",
    ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignment",
}
#: The names of Kafka's timers; BrokerChange has one from before there were states.
TIMER_NAMES: dict[ControllerState, str] = {
    state: _OTHER_TIMERS.get(state, "".join(part.capitalize() for part in state.name.split("_"))) + "RateAndTimeMs"
    for state in ControllerState
    if state is not ControllerState.IDLE
}

#: Events that are no request and no znode's change, by name.
TAKING_OFFICE, BALANCE = "taking office", "the balance of leaderships"
BROKERS_AGAIN, TOPICS_AGAIN = "what has become of brokers", "what has become of topics"
LEADERS_ANSWERED, STOP_ANSWERED = "an answer to LeaderAndIsr", "an answer to StopReplica"
INQUIRY_ANSWERED = "an answer to what a broker has"
UNCLEAN, UNCLEAN_TOPIC = "unclean election", "unclean election of a topic"
_OF_NAME = {
    TAKING_OFFICE: ControllerState.CONTROLLER_CHANGE,
    BALANCE: ControllerState.AUTO_LEADER_BALANCE,
    BROKERS_AGAIN: ControllerState.BROKER_CHANGE,
    TOPICS_AGAIN: ControllerState.TOPIC_CHANGE,
    LEADERS_ANSWERED: ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
    STOP_ANSWERED: ControllerState.TOPIC_DELETION,
    UNCLEAN: ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE,
    UNCLEAN_TOPIC: ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE,
    znodes.BROKER_IDS: ControllerState.BROKER_CHANGE,
    znodes.TOPICS: ControllerState.TOPIC_CHANGE,
    znodes.DELETE_TOPICS: ControllerState.TOPIC_DELETION,
    controller_znodes.ISR_CHANGES: ControllerState.ISR_CHANGE,
    controller_znodes.LOG_DIR_EVENTS: ControllerState.LOG_DIR_CHANGE,
    controller_znodes.REASSIGNMENTS: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    controller_znodes.PREFERRED_ELECTION: ControllerState.MANUAL_LEADER_BALANCE,
}
_OF_REQUEST = {
    ApiKey.ALTER_PARTITION: ControllerState.ISR_CHANGE,
    ApiKey.CONTROLLED_SHUTDOWN: ControllerState.CONTROLLED_SHUTDOWN,
    ApiKey.ELECT_LEADERS: ControllerState.MANUAL_LEADER_BALANCE,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ControllerState.LIST_PARTITION_REASSIGNMENT,
    ApiKey.UPDATE_FEATURES: ControllerState.UPDATE_FEATURES,
    ApiKey.CREATE_TOPICS: ControllerState.TOPIC_CHANGE,
    ApiKey.CREATE_PARTITIONS: ControllerState.TOPIC_CHANGE,
    ApiKey.DELETE_TOPICS: ControllerState.TOPIC_DELETION,
}


def state_of(name: str) -> ControllerState:
    """Return what a controller does in an event of this name: a request's, a znode's path, or one of those above."""
    found = _OF_NAME.get(name) or _OF_NAME.get(name.rpartition("/")[0]) or _BY_REQUEST_NAME.get(name)
    return found or ControllerState.IDLE


_BY_REQUEST_NAME = {
    "".join(part.capitalize() for part in ApiKey(key).name.split("_")) + "Request": state
    for key, state in _OF_REQUEST.items()
}


class ControllerStats:
    """Counts over all reigns of a broker; `now` is a clock, in seconds, which may be set back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.state = ControllerState.IDLE
        self.queue_size = 0
        self.queue_times = Percentiles()
        self.times = {state: Percentiles() for state in TIMER_NAMES}
        self.unclean_elections = 0
        #: By broker what is to be told to it, and how long requests have waited for those before them.
        self.request_queues: Callable[[], Mapping[int, int]] = dict
        self.request_times: dict[int, Percentiles] = {}

    def begun(self, name: str, since: float) -> None:
        """Take note of an event that is begun, and was lined up at `since`."""
        self.state, now = state_of(name), self.now()
        self.queue_times.record(max(0.0, now - since), now)

    def ended(self, since: float) -> None:
        """Take note of the end of an event that was begun at `since`."""
        times, now = self.times.get(self.state), self.now()
        self.state = ControllerState.IDLE
        if times is not None:
            times.record(max(0.0, now - since), now)

    def request_waited(self, broker: int, since: float) -> None:
        """Take note of a request that is sent to a broker, and was lined up at `since`."""
        now = self.now()
        self.request_times.setdefault(broker, Percentiles()).record(max(0.0, now - since), now)
