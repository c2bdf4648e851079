"""Results do not depend on where a task is stopped: a new task that finds its state on disk goes on equally.

Kafka's vectors run with restarts at random points between inputs. What Kafka's own test driver made of them in one go
must come out, to the last changelog record, store and query. (Tasks restored from changelogs: test_restored_vectors.)
"""

import gzip
import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from barnabas.streams.engine.task import Task
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.disk import DiskBackend
from barnabas.streams.testing import TopologyTestDriver
from tools.streams_vectors import running
from tools.streams_vectors.__main__ import difference_of

VECTORS = Path(__file__).parent / "topology-vectors.jsonl.gz"

#: What a restart loses by its nature: stores without a changelog, and what user code keeps in itself.
LOST = ('"logging": false', '"cancel_after"', "add_read_only_state_store")


class RestartingDriver(TopologyTestDriver):
    """A driver whose task is thrown away now and then; a new one takes its state from what was written."""

    seed = 0

    def __init__(self, *args):
        self._written = {}
        self._random = random.Random(self.seed)
        self.restarts = 0
        super().__init__(*args)

    def _capture(self, records, work=True):
        for record in records:
            self._written.setdefault(record.topic, []).append(record)
        super()._capture(records, work)

    def pipe_raw(self, topic, key, value, timestamp, headers):
        """Restart before the record, or not."""
        self._maybe_restart()
        self._written.setdefault(topic, []).append(ChangelogRecord(key, value, timestamp, headers))
        super().pipe_raw(topic, key, value, timestamp, headers)

    def _maybe_restart(self):
        if self._task is None or self._random.random() > 0.3:
            return
        self.restarts += 1
        old, metadata = self._task, self._task.metadata()
        self._new_task(metadata)
        self._task.dropped_records = old.dropped_records

    def _new_task(self, metadata):
        old = self._task
        self._task = Task(self._topology, old.id, old._settings, self._now_ms)
        self._restore(self._task.stores)
        self._task.restore_metadata(metadata)

    def _restore(self, stores):
        for name, store in stores.items():
            topic = self._topology.store_to_changelog_topic[name]
            store.restore(
                ChangelogRecord(record.key, record.value, record.timestamp, record.headers)
                for record in self._written.get(topic, ())
                if record.key is not None
            )


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
