"""Connections of a simulated broker to others that carry nothing, as `LifelineConnections` holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.broker.zookeeper.controller.broker_lifelines import Attempt, BrokerLifelines
    from barnabas.testing.simulator.machine import Machine


class SimulatedLifelines:
    """Opens and holds what `BrokerLifelines` asks for, in one life of a machine."""

    def __init__(self, machine: Machine, lifelines: BrokerLifelines) -> None:
        self._machine = machine
        self._lifelines = lifelines
        self._attempts: dict[int, Attempt] = {}
        self._sockets = machine.network.selector(machine.process)
        self._sockets.may_wait = False
        self._sockets.on_news = lambda: machine.call_soon(self._look)
        lifelines.connect, lifelines.drop = self._connect, self._drop

    def _connect(self, attempt: Attempt) -> None:
        self._attempts[attempt.number] = attempt
        self._sockets.connect(attempt.number, attempt.life.host, attempt.life.port)
        self._machine.call_at(self._machine.world.now + attempt.patience, lambda: self._give_up(attempt))

    def _drop(self, attempt: Attempt) -> None:
        if self._attempts.pop(attempt.number, None) is not None:
            self._sockets.close(attempt.number)

    def _give_up(self, attempt: Attempt) -> None:
        if attempt.number in self._attempts and not self._sockets.is_channel_ready(attempt.number):
            self._drop(attempt)
            self._lifelines.failed(attempt, self._machine.world.now, is_refused=False, is_silent=True)

    def _keep_alive(self, attempt: Attempt, longest: float, heard_at: float) -> None:
        """Ask for a sign of life, and give the connection up when there was none for too long."""
        if attempt.number not in self._attempts:
            return
        now = self._machine.world.now
        if self._sockets.is_acknowledged(attempt.number):
            heard_at = now
        elif now - heard_at >= longest:
            self._drop(attempt)
            self._lifelines.silent(attempt, now)
            return
        self._machine.call_at(now + longest / 4, lambda: self._keep_alive(attempt, longest, heard_at))

    def _look(self) -> None:
        now = self._machine.world.now
        self._sockets.poll(0.0, now)
        for number in self._sockets.connected:
            attempt, silence = self._attempts[number], self._lifelines.silence
            if silence is not None:
                self._keep_alive(attempt, silence.longest, now)
            self._lifelines.opened(attempt, now)
        for number, end in self._sockets.disconnected.items():
            attempt = self._attempts.pop(number)
            if end.was_connected:
                self._lifelines.closed(attempt, now)
            else:
                self._lifelines.failed(attempt, now, is_refused="refused" in end.reason)
