"""The metadata log as the broker of the same process reads it: from its controller's replica, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.raft.observed_log import CommittedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.broker.kraft.controller_node import ControllerNode
    from barnabas.broker.raft.broker_observer import MetadataListener
    from barnabas.broker.raft.offset_and_epoch import LeaderAndEpoch
    from barnabas.broker.raft.raft_client import Batch, SnapshotReader
    from barnabas.network.node import Node


class LocalMetadataLog:
    """Gives a broker what is committed; a `Listener` of the quorum and a `MetadataSource`.

    What the broker raises ends the reading for good (`problem`), not the quorum.
    """

    def __init__(self, node: ControllerNode, turn: Callable[[], None], report: Callable[[str], None]) -> None:
        self._node = node
        self._turn = turn
        self._report = report
        self._listener: MetadataListener | None = None
        self._next_offset = 0
        self.cluster_id: str | None = node.cluster_id
        self.problem: Exception | None = None
        self.on_leader_changed: Callable[[], None] = lambda: None

    def begin(self, listener: MetadataListener) -> None:
        """Read the log from its beginning, from the next turn of the quorum on."""
        self._listener = listener
        self._node.raft.register(self)
        self._turn()

    @property
    def leader(self) -> Node | None:
        """See `MetadataSource`."""
        return self._node.leader

    @property
    def is_caught_up(self) -> bool:
        """See `MetadataSource`."""
        high_watermark = self._node.raft.high_watermark
        return high_watermark is not None and self._next_offset >= high_watermark

    def handle_commit(self, batches: Iterable[Batch]) -> None:
        """See `Listener`."""
        found = [CommittedBatch(batch.last_offset, batch.epoch, list(batch.values)) for batch in batches]
        if found:
            self._next_offset = found[-1].last_offset + 1
            self._give(lambda listener: listener.load_batches(found))

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """See `Listener`."""
        end_offset, epoch = reader.snapshot_id
        self._next_offset = end_offset
        values = [value for batch in reader.batches() for value in batch.values]
        self._give(lambda listener: listener.load_snapshot(end_offset, epoch, values))

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """See `Listener`."""
        self.on_leader_changed()

    def begin_shutdown(self) -> None:
        """See `Listener`."""

    def _give(self, load: Callable[[MetadataListener], None]) -> None:
        assert self._listener is not None, "it was begun"
        if self.problem is not None:
            return
        try:
            load(self._listener)
        except Exception as problem:  # noqa: BLE001 - nothing may follow a fault, and the quorum goes on
            self.problem = problem
            self._report(
                f"the broker cannot follow the cluster's metadata to offset {self._next_offset}: {problem!r}. It takes "
                "no more part in the cluster, its controller does; restart it"
            )
            self.on_leader_changed()
