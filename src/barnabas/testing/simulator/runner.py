"""Runs seeds, each in a process of its own, and says what they found."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas import anatomy

if TYPE_CHECKING:
    import selectors
    from pathlib import Path

    from barnabas.anatomy.recorder import Recorder

#: What is said of a seed whose process has come to no result.
NOT_PLAYED = "the process that played the seed died"


class Result(NamedTuple):
    """What one seed came to."""

    seed: int
    violations: list[str]
    counts: dict[str, int]
    digest: str
    history: list[str]
    virtual_seconds: float
    cpu_seconds: float


def warm_up(scenario: str = "") -> None:
    """Import all that the runs of a scenario need, so that each has only to be forked."""
    import barnabas.broker.groups.group_coordinator
    import barnabas.broker.transactions.transaction_coordinator
    import barnabas.testing.simulator.scenario  # noqa: F401
    from barnabas.broker.handlers.registry import SERVED, handler_for

    for key in SERVED:
        handler_for(key)
    scenario_class(scenario)


def scenario_class(name: str) -> Any:
    """Return the class that `module:Class` names; the simulator's own for an empty name."""
    from importlib import import_module

    module, _, found = (name or "barnabas.testing.simulator.scenario:Scenario").partition(":")
    return getattr(import_module(module), found)


def play(seed: int, keep_history: bool, scenario_name: str = "", recorder: Recorder | None = None) -> Result:
    """Run a seed in this very process, which is of no use for anything else afterwards.

    A `recorder` gets what the parts of clients and broker do, in virtual seconds.
    """
    from barnabas.testing.simulator.world import START

    began = time.process_time()
    scenario = scenario_class(scenario_name)(seed)
    world = scenario.world
    if recorder is not None:
        recorder.clock = lambda: world.now - START
        anatomy.start(recorder)
    try:
        scenario.run()
    except BaseException as problem:  # noqa: BLE001 - any error is a finding
        world.violate("".join(traceback.format_exception(problem)).rstrip())
    lines = (
        [f"{when - START:10.4f}  {who:24} {what}" for when, who, what in world.history]
        if keep_history or world.violations
        else []
    )
    return Result(
        seed,
        world.violations,
        dict(world.counts),
        world.digest(),
        lines,
        world.now - START,
        time.process_time() - began,
    )


def record(seed: int, scenario_name: str, path: Path) -> Result:
    """Run a seed in this very process, and write what its parts did into a recording."""
    from barnabas.anatomy import recording
    from barnabas.anatomy.recorder import Recorder

    recorder = Recorder(capacity=recording.MOST_EVENTS)
    result = play(seed, True, scenario_name, recorder)
    anatomy.stop()
    with path.open("w", encoding="utf-8") as stream:
        recording.write(stream, recording.Recording(f"simulator, seed {seed}", recorder.events(), recorder.lost))
    return result


def start(seed: int, keep_history: bool, scenario_name: str) -> tuple[int, int]:
    """Fork a process that plays a seed; its id, and where its result can be read."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        result = play(seed, keep_history, scenario_name)
        with os.fdopen(writing, "w") as stream:
            json.dump(result, stream)
        status = 0
    except BaseException:  # noqa: BLE001 - the parent hears of it by the missing result
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


class Run:
    """Many seeds, so many at a time; the results in the order of the seeds' ends."""

    def __init__(self, seeds: Any, jobs: int, *, keep_history: bool = False, scenario: str = "") -> None:
        self._scenario = scenario
        self._seeds = iter(seeds)
        self._jobs = jobs
        self._keep_history = keep_history
        self._running: dict[int, tuple[int, int, list[bytes]]] = {}
        self.counts: Counter[str] = Counter()

    def results(self) -> Any:
        """Yield each result as it comes; closing the generator ends what still runs."""
        import selectors

        selector = selectors.DefaultSelector()
        try:
            self._fill(selector)
            while self._running:
                for key, _ in selector.select():
                    chunk = os.read(key.fd, 1 << 16)
                    pid, seed, chunks = self._running[key.fd]
                    if chunk:
                        chunks.append(chunk)
                        continue
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    del self._running[key.fd]
                    os.waitpid(pid, 0)
                    result = self._result(seed, b"".join(chunks))
                    self.counts.update(result.counts)
                    yield result
                    self._fill(selector)
        finally:
            self._end()
            selector.close()

    def _fill(self, selector: selectors.BaseSelector) -> None:
        import selectors

        while len(self._running) < self._jobs:
            seed = next(self._seeds, None)
            if seed is None:
                return
            pid, reading = start(seed, self._keep_history, self._scenario)
            self._running[reading] = pid, seed, []
            selector.register(reading, selectors.EVENT_READ)

    @staticmethod
    def _result(seed: int, data: bytes) -> Result:
        if not data:
            return Result(seed, [NOT_PLAYED], {}, "", [], 0.0, 0.0)
        return Result(*json.loads(data))

    def _end(self) -> None:
        import signal

        for reading, (pid, _, _) in self._running.items():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reading)
        self._running.clear()
