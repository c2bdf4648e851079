"""Python workers that Spark uses for task after task."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from barnabas.spark import garbage_collection


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(garbage_collection, "_tasks_left", 2)
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    yield
    gc.unfreeze()


def is_walked_through(found: list[object]) -> bool:
    """Whether a garbage collection looks at it."""
    return any(each is found for each in gc.get_objects())


def test_what_is_loaded_by_the_first_two_tasks_is_no_longer_walked_through() -> None:
    first: list[object] = []
    garbage_collection.freeze_loaded_objects()
    second: list[object] = []  # as what Spark loads when a sink's first task is done
    assert is_walked_through(second)

    garbage_collection.freeze_loaded_objects()

    assert not is_walked_through(first)
    assert not is_walked_through(second)


def test_what_later_tasks_make_is_collected_as_ever() -> None:
    for _ in range(2):
        garbage_collection.freeze_loaded_objects()
    loop: list[object] = []
    loop.append(loop)
    garbage_collection.freeze_loaded_objects()

    assert is_walked_through(loop)
    del loop
    assert gc.collect() >= 1


def test_a_process_that_is_no_worker_of_spark_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER")
    before = gc.get_freeze_count()

    garbage_collection.freeze_loaded_objects()

    assert gc.get_freeze_count() == before
