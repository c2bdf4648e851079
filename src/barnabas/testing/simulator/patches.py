"""Puts a `World` in the place of threads and their waits, for all code of this process.

Clocks, randomness and the network come in through `SimulatedEnvironment` and `SimulatedBroker`. Meant for a process
that does nothing else (`runner.py` makes one for each seed): nothing is ever put back.
"""

from __future__ import annotations

import threading
import time
from math import inf
from typing import TYPE_CHECKING, Any

from barnabas.testing.simulator.world import SimulatedThread

if TYPE_CHECKING:
    from barnabas.testing.simulator.world import PythonThread, World

_world: World


class SimulatedLock:
    """`threading.Lock`; who waits for it lets others run."""

    __slots__ = ("_is_locked", "_waiting")

    def __init__(self) -> None:
        self._is_locked = False
        self._waiting: list[SimulatedThread] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See `threading.Lock`."""
        if not self._is_locked:
            self._is_locked = True
            return True
        if not blocking:
            return False
        world = _world
        me = world.current()
        assert me is not None, "an event would wait for a lock"
        deadline = inf if timeout < 0 else world.now + timeout
        self._waiting.append(me)
        while self._is_locked:
            if world.now >= deadline:
                self._waiting.remove(me)
                return False
            world.park(deadline)
        self._waiting.remove(me)
        self._is_locked = True
        return True

    def release(self) -> None:
        """See `threading.Lock`."""
        if not self._is_locked:
            raise RuntimeError("release unlocked lock")
        self._is_locked = False
        if self._waiting:
            _world.unpark(self._waiting[0])

    def locked(self) -> bool:
        """See `threading.Lock`."""
        return self._is_locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()


class SimulatedRLock:
    """`threading.RLock`."""

    __slots__ = ("_count", "_lock", "_owner")

    def __init__(self) -> None:
        self._lock = SimulatedLock()
        self._owner = 0
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See `threading.RLock`."""
        me = _get_ident()
        if self._owner == me and self._count:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner = me
        self._count = 1
        return True

    def release(self) -> None:
        """See `threading.RLock`."""
        self._count -= 1
        if not self._count:
            self._owner = 0
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()

    # What `threading.Condition` asks of its lock.

    def _release_save(self) -> int:
        count, self._count = self._count, 0
        self._owner = 0
        self._lock.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._lock.acquire()
        self._owner = _get_ident()
        self._count = count

    def _is_owned(self) -> bool:
        return bool(self._count) and self._owner == _get_ident()


def _get_ident() -> int:
    thread = _world.current()
    return thread.ident if thread is not None else 0


def _current_thread() -> threading.Thread | PythonThread | SimulatedThread:
    thread = _world.current()
    if thread is None:
        return threading.main_thread()
    return thread if thread.python_thread is None else thread.python_thread


def _start(thread: PythonThread) -> None:
    me = _world.current()
    assert me is not None, "an event would start a thread"
    thread._simulated = _world.spawn(f"{me.process.name}/{thread.name.split(' ')[0]}", me.process, thread.run, thread)


def _join(thread: PythonThread, timeout: float | None = None) -> None:
    _world.join(thread._simulated, timeout)


def _is_alive(thread: PythonThread) -> bool:
    simulated = getattr(thread, "_simulated", None)
    return simulated is not None and not simulated.done


def _monotonic() -> float:
    return _world.now


def install(world: World) -> None:
    """Let this process live in the world. Threads that exist already are left alone."""
    global _world
    _world = world
    # Nothing is collected: what is forgotten would come to its end at an unpredictable time.
    import gc

    gc.disable()
    _install_threads()


def _install_threads() -> None:
    replaced: dict[str, Any] = {
        "Lock": SimulatedLock,
        "RLock": SimulatedRLock,
        "_allocate_lock": SimulatedLock,
        "_time": _monotonic,
        "get_ident": _get_ident,
        "current_thread": _current_thread,
    }
    for name, value in replaced.items():
        setattr(threading, name, value)
    # A wait for the result of `send` counts its seconds by it.
    setattr(time, "monotonic", _monotonic)  # noqa: B010 - an assignment would be refused by the type checker
    methods: dict[str, Any] = {"start": _start, "join": _join, "is_alive": _is_alive}
    for name, value in methods.items():
        setattr(threading.Thread, name, value)
