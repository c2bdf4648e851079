"""Python workers that Spark uses for task after task."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from barnabas.spark import reused_worker


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reused_worker, "_is_settled", False)
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    yield
    gc.unfreeze()


def test_what_is_loaded_after_the_first_task_is_no_longer_walked_through() -> None:
    loaded: list[list[object]] = [[] for _ in range(1000)]

    reused_worker.settle()

    walked_through = {id(found) for found in gc.get_objects()}
    assert gc.get_freeze_count() >= len(loaded)
    assert not any(id(one) in walked_through for one in loaded)


def test_what_later_tasks_make_is_collected_as_ever() -> None:
    reused_worker.settle()
    frozen = gc.get_freeze_count()
    loop: list[object] = []
    loop.append(loop)
    del loop

    reused_worker.settle()

    assert gc.collect() >= 1
    assert gc.get_freeze_count() <= frozen


def test_a_process_that_is_no_worker_of_spark_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER")
    before = gc.get_freeze_count()

    reused_worker.settle()

    assert gc.get_freeze_count() == before
