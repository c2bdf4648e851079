"""The errors of Kafka Streams, under Kafka's names with this house's ending: TopologyException is `TopologyError`.

Kafka's IllegalArgumentException is a ValueError, its NullPointerException a TypeError, its ConfigException
`barnabas.errors.ConfigError`.
"""

from __future__ import annotations

from barnabas.errors import KafkaError


class StreamsError(KafkaError):
    """A stream application failed; the cause says at what."""


class TopologyError(StreamsError):
    """The topology cannot be: names clash, parents are unknown, topics or stores do not fit together."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Invalid topology: {message}")


class TaskIdFormatError(StreamsError):
    """The text is no task id."""


class ProcessorStateError(StreamsError):
    """A state store could not be opened, restored or written."""


class TaskCorruptedError(StreamsError):
    """The state of a task does not fit its changelog any more and must be restored from its beginning."""


class TaskMigratedError(StreamsError):
    """A task is run by another member of the group now."""


class MissingSourceTopicError(StreamsError):
    """A topic that the topology reads does not exist."""


class InvalidStateStoreError(StreamsError):
    """A state store cannot be queried."""


class UnknownStateStoreError(InvalidStateStoreError):
    """The topology has no state store of that name."""


class StateStoreNotAvailableError(InvalidStateStoreError):
    """The state store cannot be queried, now or ever again."""


class StateStoreMigratedError(InvalidStateStoreError):
    """The state store is elsewhere now; ask again for where."""


class StreamsNotStartedError(InvalidStateStoreError):
    """The application has not been started."""


class StreamsRebalancingError(InvalidStateStoreError):
    """The application is restoring its state; ask again."""


class StreamsStoppedError(InvalidStateStoreError):
    """The application has stopped."""
