"""Where the replicas of new partitions go (StripedReplicaPlacer).

The first replicas go round the racks and within a rack round its brokers, so that leaders are spread evenly; each
further replica goes to the next rack. Fenced brokers get followers only, after all that are alive in their rack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import InvalidReplicationFactorError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random


class UsableBroker(NamedTuple):
    """A broker that may get replicas."""

    id: int
    rack: str | None
    is_fenced: bool


class StripedReplicaPlacer:
    """Places replicas; `random` says where to begin."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def place(self, count: int, replication_factor: int, brokers: Iterable[UsableBroker]) -> list[list[int]]:
        """Return the replicas of so many partitions. Raises `InvalidReplicationFactorError` where they do not fit."""
        racks = _RackList(self._random, brokers)
        racks.check(replication_factor)
        return [racks.place(replication_factor) for _ in range(count)]


class _BrokerList:
    """Brokers of one rack, in a circle; each epoch (one partition) begins one further on."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self._brokers = sorted(brokers)
        self._index = self._epoch = 0
        self._offset = random.randrange(len(brokers)) if brokers else 0

    def shuffle(self, random: Random) -> None:
        random.shuffle(self._brokers)

    def next(self, epoch: int) -> int | None:
        """Return the next broker of this epoch; None when all were given."""
        count = len(self._brokers)
        if not count:
            return None
        if self._epoch != epoch:
            self._epoch, self._index = epoch, 0
            self._offset = (self._offset + 1) % count
        if self._index >= count:
            return None
        broker = self._brokers[(self._index + self._offset) % count]
        self._index += 1
        return broker


class _Rack:
    def __init__(self, brokers: list[UsableBroker], random: Random) -> None:
        self.fenced = _BrokerList([broker.id for broker in brokers if broker.is_fenced], random)
        self.unfenced = _BrokerList([broker.id for broker in brokers if not broker.is_fenced], random)

    def next(self, epoch: int) -> int | None:
        """Return the next broker of this epoch, those that are alive first."""
        found = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if found is None else found


class _RackList:
    def __init__(self, random: Random, brokers: Iterable[UsableBroker]) -> None:
        self._random = random
        found: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            found.setdefault(broker.rack, []).append(broker)
        # Brokers without a rack come first, as one rack.
        names = sorted(found, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(found[name], random) for name in names]
        self._total = sum(map(len, found.values()))
        self._alive = sum(not broker.is_fenced for some in found.values() for broker in some)
        self._epoch = 0
        self._offset = random.randrange(len(names)) if names else 0

    def check(self, factor: int) -> None:
        """Raise `InvalidReplicationFactorError` unless so many replicas can be placed."""
        if factor <= 0:
            raise InvalidReplicationFactorError(
                f"Invalid replication factor {factor}: the replication factor must be positive."
            )
        if not self._alive:
            raise InvalidReplicationFactorError(
                "All brokers are currently fenced, or have all their log directories cordoned."
            )
        if factor > self._total:
            raise InvalidReplicationFactorError(
                f"The target replication factor of {factor} cannot be reached because only {self._total} broker(s) "
                "are registered or some brokers have all their log directories cordoned."
            )

    def place(self, factor: int) -> list[int]:
        """Return the replicas of one partition; the number was checked."""
        if self._epoch == self._alive and self._alive > 1:
            # Every broker has led once: begin anew in another order, so that pairs of brokers do not repeat.
            self._random.shuffle(self._racks)
            for rack in self._racks:
                rack.fenced.shuffle(self._random)
                rack.unfenced.shuffle(self._random)
            self._epoch = 0
        count = len(self._racks)
        self._offset %= count
        first = self._offset
        leader = self._racks[first].unfenced.next(self._epoch)
        while leader is None:
            first = (first + 1) % count
            leader = self._racks[first].unfenced.next(self._epoch)
        replicas = [leader]
        self._place_followers(replicas, factor, first)
        self._epoch += 1
        self._offset += 1
        return replicas

    def _place_followers(self, replicas: list[int], factor: int, first: int) -> None:
        rack, skipped = self._offset, False
        while len(replicas) < factor:
            if rack == first and not skipped:
                # The rack that has the leader is left out, once.
                skipped = True
            else:
                found = self._racks[rack].next(self._epoch)
                if found is not None:
                    replicas.append(found)
            rack = (rack + 1) % len(self._racks)
