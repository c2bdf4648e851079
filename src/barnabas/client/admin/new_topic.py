"""What `AdminClient.create_topics` creates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.errors import IllegalArgumentError


class NewTopic:
    """A topic to create.

    `num_partitions` and `replication_factor` default to -1: the broker's `num.partitions` and
    `default.replication.factor`. `replica_assignments` says instead, for every partition by number, which brokers hold
    it, the preferred leader first. `configs` are topic settings under Kafka's names, such as
    `{"cleanup.policy": "compact"}`.

    Raises `IllegalArgumentError` when the name is empty, or both counts and assignments are given.

    """

    __slots__ = ("configs", "name", "num_partitions", "replica_assignments", "replication_factor")

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        *,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise IllegalArgumentError(f"the name of a topic must be a string that is not empty, not {name!r}")
        if replica_assignments is not None and (num_partitions != -1 or replication_factor != -1):
            raise IllegalArgumentError(
                f"topic {name!r}: give num_partitions and replication_factor, or replica_assignments, not both"
            )
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = None if replica_assignments is None else dict(replica_assignments)
        self.configs = dict(configs or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewTopic) and all(getattr(self, n) == getattr(other, n) for n in NewTopic.__slots__)

    __hash__ = None  # type: ignore[assignment]  # it holds dicts

    def __repr__(self) -> str:
        return (
            f"NewTopic({self.name!r}, num_partitions={self.num_partitions}, "
            f"replication_factor={self.replication_factor}, replica_assignments={self.replica_assignments}, "
            f"configs={self.configs})"
        )


class NewPartitions:
    """What a topic's partitions are increased to: `total_count`, and for each new one which brokers hold it."""

    __slots__ = ("new_assignments", "total_count")

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        self.total_count = total_count
        self.new_assignments = None if new_assignments is None else [list(brokers) for brokers in new_assignments]

    def __repr__(self) -> str:
        return f"NewPartitions({self.total_count}, {self.new_assignments})"
