"""The metadata log as the broker of a controller's process reads it, and what a fault of the broker costs."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.kraft.local_metadata_log import LocalMetadataLog
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.raft.metadata_loader import MetadataLoader
from tests.support.controllers import registration
from tests.support.core_controller import CoreController, ask


class Reader:
    """A controller, and a broker beside it that reads its log; the calls for later wait in `later`."""

    def __init__(self) -> None:
        self.controller = CoreController()
        self.images: list[MetadataImage] = []
        self.faults: list[Exception] = []
        self.said: list[str] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.log = LocalMetadataLog(
            self.controller.node,
            self.controller.driver.turn,
            self.said.append,
            lambda seconds, call: self.later.append((seconds, call)),
        )
        self.loader = MetadataLoader(self._publish)
        self.log.begin(self.loader)

    def _publish(self, image: MetadataImage) -> None:
        if self.faults:
            raise self.faults.pop()
        self.images.append(image)

    def register(self, broker_id: int) -> None:
        request = registration(broker_id)
        request.cluster_id = self.controller.node.cluster_id
        assert ask(self.controller, self.controller.connect(), request, 4).error_code == 0


def test_it_is_read_to_its_end() -> None:
    reader = Reader()
    reader.register(1)
    assert reader.log.is_caught_up
    assert list(reader.images[-1].brokers) == [1]


def test_after_a_fault_all_is_read_anew_ever_later_and_the_quorum_goes_on() -> None:
    reader = Reader()
    reader.register(1)
    reader.faults = [RuntimeError("second"), RuntimeError("first")]
    reader.register(2)
    assert reader.log.problem is not None
    assert "takes no part in the cluster" in reader.said[-1]
    reader.register(3)
    assert list(reader.images[-1].brokers) == [1]
    for wait in (1.0, 2.0):
        ((seconds, call),) = reader.later
        assert seconds == wait
        reader.later.clear()
        call()
    assert len([line for line in reader.said if "takes no part" in line]) == 2, "two faults"
    assert reader.log.problem is None
    assert list(reader.images[-1].brokers) == [1, 2, 3]
    assert reader.controller.problems == []
    assert "again" in reader.said[-1]
    reader.register(4)
    assert list(reader.images[-1].brokers) == [1, 2, 3, 4]


def test_a_fault_that_stays_is_told_once() -> None:
    reader = Reader()
    reader.faults = [RuntimeError("always")] * 5
    reader.register(1)
    for _ in range(4):
        ((_, call),) = reader.later
        reader.later.clear()
        call()
    assert reader.log.problem is not None
    assert len([line for line in reader.said if "takes no part" in line]) == 1
