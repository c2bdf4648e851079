"""Results do not depend on where a task is stopped: a new task that finds its state on disk goes on equally.

Kafka's vectors run with restarts at random points between inputs. What Kafka's own test driver made of them in one go
must come out, to the last changelog record, store and query. (Tasks restored from changelogs: test_restored_vectors.)
"""

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from barnabas.streams.engine.task import Task
from barnabas.streams.state.disk import DiskBackend
from tests.support.restarting_driver import RestartingDriver
from tools.streams_vectors import running
from tools.streams_vectors.__main__ import difference_of

VECTORS = Path(__file__).parent / "topology-vectors.jsonl.gz"

#: What a restart loses by its nature: stores without a changelog, and what user code keeps in itself.
LOST = ('"logging": false', '"cancel_after"', "add_read_only_state_store")


class DiskDriver(RestartingDriver):
    """A restarting driver whose task finds its state on disk; only stores that are wanted in memory are restored.

    Before each restart the task does some work that is never committed.
    """

    def __init__(self, *args):
        self._directory = TemporaryDirectory()
        self._backend = None
        super().__init__(*args)

    def _task_settings(self):
        self._backend = DiskBackend(self._directory.name, size_limit=1 << 24)
        return super()._task_settings()._replace(backend=self._backend)

    def _new_task(self, metadata):
        self._backend.commit(metadata)
        for name in self._backend.names(""):
            self._backend.open(name).put(b"never committed", b"x")
        self._backend.close()
        self._backend = DiskBackend(self._directory.name, size_limit=1 << 24)
        old = self._task
        settings = old._settings._replace(backend=self._backend)
        self._task = Task(self._topology, old.id, settings, self._now_ms)
        self._restore({name: store for name, store in self._task.stores.items() if not store.persistent})
        self._task.restore_metadata(self._backend.metadata())

    def close(self):
        super().close()
        self._backend.close()
        self._directory.cleanup()


def cases():
    with gzip.open(VECTORS, "rt") as lines:
        for line in lines:
            case = json.loads(line)
            if "error" not in case["expected"] and not any(lost in json.dumps(case) for lost in LOST):
                yield case


def differences_with_restarts(monkeypatch, seed, base=RestartingDriver, step=1):
    """Return the first difference of each case, or of each `step`th, and how often tasks were restarted."""
    drivers = []

    class Driver(base):
        def __init__(self, *args):
            self.seed = seed * 10_000 + len(drivers)
            drivers.append(self)
            super().__init__(*args)

    straight = list(cases())[seed % step :: step]
    assert len(straight) >= 430 // step
    monkeypatch.setattr(running, "TopologyTestDriver", Driver)
    found = {case["name"]: difference_of(case) for case in straight}
    return {name: text for name, text in found.items() if text is not None}, sum(driver.restarts for driver in drivers)


def test_a_task_goes_on_equally_from_disk(monkeypatch):
    pytest.importorskip("lmdb")
    differences, restarts = differences_with_restarts(monkeypatch, 7, DiskDriver, step=6)
    assert differences == {}
    assert restarts > 300


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 20))
@pytest.mark.parametrize("base", [RestartingDriver, DiskDriver])
def test_restarted_tasks_go_on_equally_at_many_points(monkeypatch, seed, base):
    pytest.importorskip("lmdb")
    assert differences_with_restarts(monkeypatch, seed, base)[0] == {}
