"""`TaskTeller`: what a task tells of itself where its process is recorded (`barnabas.anatomy`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas import anatomy
from barnabas.streams.spark.task_measures import RestoreEvent


class TaskTeller:
    """Tells of one task of an application."""

    def __init__(self, application: str, task: str) -> None:
        self._whose = application, task

    def step(self, recorder: anatomy.Recorder, batch: int, step: str, stream_time: int) -> None:
        """Tell that the task came to a step of a batch."""
        recorder.record(anatomy.events.StreamsTaskStep(*self._whose, batch, step, stream_time))

    def counted(self, recorder: anatomy.Recorder, way: str, counts: Mapping[tuple[str, str], tuple[int, int]]) -> None:
        """Tell records and bytes by node and topic."""
        for where, found in counts.items():
            recorder.record(anatomy.events.StreamsTaskCounted(*self._whose, way, *where, *found))

    def restoring(self, tell: Callable[[RestoreEvent], None]) -> Callable[[RestoreEvent], None]:
        """Return what hears how a restoration goes on, and passes it on."""
        ends: dict[str, int] = {}

        def told(event: RestoreEvent) -> None:
            if anatomy.active is not None:
                end = ends.setdefault(event.store, event.end)
                position = event.start if event.what == "start" else event.end
                restored = anatomy.events.StoreRestored(*self._whose, event.store, event.what, position, end)
                anatomy.active.record(restored)
            tell(event)

        return told
