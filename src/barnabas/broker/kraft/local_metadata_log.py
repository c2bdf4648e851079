"""The metadata log as the broker of the same process reads it: from its controller's replica, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.raft.broker_observer import Retries
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

    What the broker raises (`problem`) does not end the quorum; all is read anew, as `MetadataLogObserver` does.
    `call_later` is the loop's.
    """

    def __init__(
        self,
        node: ControllerNode,
        turn: Callable[[], None],
        report: Callable[[str], None],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._node = node
        self._call_later = call_later
        self.retries = Retries()
        self._turn = turn
        self._report = report
        self._listener: MetadataListener | None = None
        self._next_offset = 0
        self._is_waiting = False
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
        if found and not self._is_waiting:
            self._next_offset = found[-1].last_offset + 1
            self._give(lambda listener: listener.load_batches(found))

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """See `Listener`."""
        if self._is_waiting:
            return
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
        try:
            load(self._listener)
            self._go_on(self._listener)
        except Exception as problem:  # noqa: BLE001 - nothing may follow a fault, and the quorum goes on
            self._failed(self._listener, problem)

    def _go_on(self, listener: MetadataListener) -> None:
        if self.is_caught_up:
            listener.caught_up()
            self.retries.succeeded()
            had_problem, self.problem = self.problem is not None, None
            if had_problem:
                self._report("the cluster's metadata were read anew; this broker takes part in the cluster again")
                self.on_leader_changed()

    def _failed(self, listener: MetadataListener, problem: Exception) -> None:
        is_new = self.problem is None or repr(problem) != repr(self.problem)
        delay = self.retries.next_after()
        if is_new:
            self._report(
                f"the broker cannot follow the cluster's metadata to offset {self._next_offset}: {problem!r}. It takes "
                f"no part in the cluster before it can, its controller does; it reads all metadata anew, in {delay:g} "
                "s first and then ever later"
            )
        self.problem, self._next_offset, self._is_waiting = problem, 0, True
        listener.begin_anew()
        self._call_later(delay, self._begin_anew)
        self.on_leader_changed()

    def _begin_anew(self) -> None:
        """Have the quorum give everything once more, from its next turn on."""
        self._is_waiting = False
        self._node.raft.unregister(self)
        self._node.raft.register(self)
        self._turn()
