"""When the metadata log gets a snapshot, and how it is written."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from barnabas.broker.controller.snapshot_generator import SnapshotGenerator, SnapshotLimits
from barnabas.broker.metadata.image_records import image_records
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.storage_threads import InlineStorage, Work
from barnabas.errors import KafkaStorageError
from tests.support.controllers import Controllers
from tests.support.memory_quorum import MemorySnapshot


class Writer:
    def __init__(self, snapshot_id: OffsetAndEpoch) -> None:
        self.snapshot_id = snapshot_id
        self.records: list[ApiMessageAndVersion] = []
        self.is_frozen = self.is_closed = self.fails = False

    def append(self, records: Sequence[ApiMessageAndVersion]) -> None:
        if self.fails:
            raise KafkaStorageError("no space left")
        self.records += records

    def freeze(self) -> Generator[Work, None, None]:
        yield lambda: None
        self.is_frozen = True

    def close(self) -> None:
        self.is_closed = True


class Generated:
    """A controller with a generator, and the snapshots that it began."""

    def __init__(self, max_bytes: float, max_interval: float = 3600.0) -> None:
        self.controllers = Controllers()
        self.writers: list[Writer] = []
        self.reports: list[str] = []
        raft = self.controllers.quorum.nodes[100]
        raft.create_snapshot = self._create  # type: ignore[assignment,method-assign]
        limits = SnapshotLimits(max_bytes, max_interval)
        self.generator = SnapshotGenerator(raft, limits, self.reports.append, InlineStorage())
        self.controllers.controllers[100].on_committed.append(self.generator.publish)
        self.controllers.elect()

    def _create(self, snapshot_id: OffsetAndEpoch, last_contained_log_timestamp: int) -> Writer:
        self.writers.append(Writer(snapshot_id))
        return self.writers[-1]

    def tick(self, times: int = 10) -> None:
        for _ in range(times):
            self.generator.tick(self.controllers.instant())


def test_a_snapshot_is_written_after_so_many_bytes() -> None:
    found = Generated(2_000)
    found.controllers.start(1, 2, 3)
    found.tick()
    assert found.writers == []
    found.controllers.create("flights", partitions=30)
    found.tick()
    (writer,) = found.writers
    image = found.controllers.active.committed_image
    assert writer.snapshot_id == OffsetAndEpoch(image.offset + 1, image.epoch)
    assert writer.records == list(image_records(image))
    assert (writer.is_frozen, writer.is_closed) == (True, True)


def test_a_snapshot_is_written_after_some_time_with_any_record() -> None:
    found = Generated(1e9, 60.0)
    found.controllers.now += 59
    found.tick()
    assert found.writers == []
    found.controllers.now += 2
    found.tick()
    assert len(found.writers) == 1
    found.controllers.now += 1000
    found.tick()
    assert len(found.writers) == 1, "nothing was written since"


def test_a_large_snapshot_is_written_in_pieces_of_what_was_committed() -> None:
    found = Generated(10)
    found.controllers.start(1, 2, 3)
    found.tick(100)
    found.controllers.create("flights", partitions=1500)
    before = found.controllers.active.committed_image
    begun = len(found.writers)
    found.tick(2)
    found.controllers.create("meanwhile")
    assert not found.writers[begun].is_frozen
    found.tick(5)
    assert found.writers[begun].is_frozen
    assert found.writers[begun].records == list(image_records(before))


def test_a_disk_that_fails_costs_the_snapshot_only() -> None:
    found = Generated(10)
    found.tick(1)
    found.writers[0].fails = True
    found.tick(1)
    assert "no space left" in found.reports[0]
    assert (found.writers[0].is_frozen, found.writers[0].is_closed) == (False, True)
    found.controllers.start(1)
    found.tick()
    assert found.writers[1].is_frozen


def test_a_snapshot_that_was_loaded_needs_no_other() -> None:
    found = Generated(1e9, 60.0)
    controller = found.controllers.controllers[100]
    image = controller.committed_image
    found.controllers.quorum.elect(None)
    controller.handle_load_snapshot(MemorySnapshot(OffsetAndEpoch(image.offset + 1, 1), list(image_records(image))))
    found.controllers.now += 100
    found.tick()
    assert found.writers == []
