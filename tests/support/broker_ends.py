"""Brokers that are killed, paused, cut off, restarted and walled off under one controller, in virtual time.

What the controller does about them is held to this: a process that has ended is fenced at once where that can be seen;
a broker that lives is never fenced before its session ends, unless its port, seen open before, refused connections, or
nothing gets there while the controller reaches at least half of all; and then it is back with its next heartbeats. So
is one whose machine is gone given up soon. Another life of a broker never pays for the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from barnabas.broker.kraft.broker_probes import Probe
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from tests.support.controllers import registration
from tests.support.core_broker import CoreClient
from tests.support.core_controller import CoreController

STEP = 0.01
SESSION, HEARTBEAT = 9.0, 2.0
#: A process that has ended is fenced within this, where its port can be asked; a broker is back within the other.
_SOON, _BACK = 0.5, 3.0
#: By default a quarter of the session, of which a quarter is for a connection, twice; and a heartbeat's way.
_PATIENCE = SESSION / 16
_SOON_SILENT = SESSION / 4 + 2 * _PATIENCE + 0.3


class BrokenPromiseError(AssertionError):
    """The controller has fenced who lives, or has not fenced who has ended."""


class Host:
    """A broker's machine: its process, its port, and the way between it and the controller."""

    def __init__(self, world: BrokerEnds, number: int) -> None:
        self.world = world
        self.number = number
        self.life = 0
        self.epoch = -1
        self.is_running = self.is_paused = self.is_cut = self.is_walled = self.is_taken = False
        #: Whether the port was open for the controller in this life, and has refused it since; when the process ended.
        self.was_open = self.has_refused = False
        self.ended_at: float | None = None
        self.client: CoreClient | None = None
        self._seen = 0
        self._due = self._connect_at = self._port_ends_at = 0.0
        #: When it was cut off.
        self.cut_at = 0.0
        #: When it could not be heard last.
        self.unheard_at = 0.0
        #: When nothing got through last.
        self.last_cut_at = 0.0
        #: When the last attempt to connect came to nothing, and the one before.
        self.silent_at = self.silent_before = 0.0

    @property
    def is_heard(self) -> bool:
        """Whether what it sends reaches the controller."""
        return self.is_running and not self.is_paused and not self.is_cut

    def start(self) -> None:
        """Begin another life."""
        if not self.is_running:
            self.life += 1
            self.epoch = -1
            self.is_running, self.is_paused, self.is_taken = True, False, False
            self.was_open = self.has_refused = False
            # Some are walled off from their first day.
            self.is_walled |= self.world.random.random() < 0.1
            self.ended_at = None
            self._due = self._connect_at = 0.0

    def cut(self) -> None:
        """Let nothing through from now on."""
        if not self.is_cut:
            self.is_cut, self.cut_at = True, self.world.now

    def was_reached(self, since: float) -> bool:
        """Whether something got through at some time since then."""
        return not self.is_cut or self.cut_at > since

    @property
    def has_lost_nothing_lately(self) -> bool:
        """Whether what was sent to it since a connection takes its time has come through."""
        return self.world.now - self.last_cut_at > _PATIENCE + 5 * STEP

    def kill(self) -> None:
        """End the process: the system resets its connections, where the network lets it."""
        if self.is_running:
            self.is_running = False
            self.ended_at = self.world.now
            # The system closes one socket after the other.
            self._port_ends_at = self.world.now + self.world.random.uniform(0.0, 0.03)
            if not self.is_cut:
                self.reset()

    def reset(self) -> None:
        """Lose the connection; a broker that lives makes another after a while."""
        if self.client is not None:
            self.client.lose()
            self.client = None
        self._connect_at = self._due = self.world.now + 0.1

    def turn(self) -> None:
        """Send what is due, and take the answers."""
        if not self.is_heard:
            return
        now = self.world.now
        if self.client is None:
            if now < self._connect_at:
                return
            self.client, self._seen = self.world.controller.connect(), 0
        for response in self.client.responses[self._seen :]:
            self._seen += 1
            self._take(response)
        if now >= self._due:
            self._due = now + (HEARTBEAT if self.epoch >= 0 else 0.2)
            self._ask(self.client)

    def _ask(self, client: CoreClient) -> None:
        node = self.world.controller.node
        if self.epoch < 0:
            client.request(registration(self.number, life=self.life, cluster_id=node.cluster_id), 4)
        else:
            offset = node.controller.committed_image.offset
            client.request(
                BrokerHeartbeatRequest(
                    broker_id=self.number, broker_epoch=self.epoch, current_metadata_offset=offset, want_fence=False
                ),
                1,
            )

    def _take(self, response: object) -> None:
        if isinstance(response, BrokerRegistrationResponse) and not response.error_code:
            self.epoch, self._due = response.broker_epoch, 0.0
        elif isinstance(response, BrokerHeartbeatResponse) and response.is_fenced:
            self._due = self.world.now + 0.05

    def answer(self, epoch: int) -> tuple[bool, bool]:
        """Return what a connection comes to that was tried for a life: open, refused, or neither."""
        if self.is_cut:
            return False, False
        is_open = self.is_running or self.is_taken or self.world.now < self._port_ends_at
        if self.is_walled or not is_open:
            self.has_refused = True
            return False, True
        self.was_open |= self.is_running and epoch == self.epoch
        return True, False


class BrokerEnds:
    """One controller and three hosts from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.controller = CoreController(
            {"broker.session.timeout.ms": int(SESSION * 1000), "broker.heartbeat.interval.ms": int(HEARTBEAT * 1000)}
        )
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.hosts = {number: Host(self, number) for number in (1, 2, 3)}
        self.controller.node.probes.connect = self._probe
        self._fenced_wrongly: dict[int, float] = {}
        self._warned = 0
        for host in self.hosts.values():
            host.start()
        self.run(2.0)

    @property
    def now(self) -> float:
        """The time."""
        return self.controller.now

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in a while."""
        self._later.append((self.now + seconds, action))

    def run(self, seconds: float) -> None:
        """Let time pass, and look at every step. Raises `BrokenPromiseError`."""
        end = self.now + seconds
        while self.now < end:
            self.controller.advance(STEP)
            due = [action for when, action in self._later if when <= self.now]
            self._later = [entry for entry in self._later if entry[0] > self.now]
            for action in due:
                action()
            for host in self.hosts.values():
                host.turn()
                host.unheard_at = host.unheard_at if host.is_heard else self.now
                host.last_cut_at = self.now if host.is_cut else host.last_cut_at
            self._look()

    def _probe(self, probe: Probe) -> None:
        host = self.hosts[probe.whose.id]
        is_open, is_refused = host.answer(probe.whose.epoch)

        def tell() -> None:
            is_silent = not (is_open or is_refused)
            life = self.controller.node.probes._lives.get(host.number)
            if is_silent and life is not None and life.in_flight == probe.number:
                host.silent_before, host.silent_at = host.silent_at, self.now
            self.controller.node.probes.answered(
                probe, is_open=is_open, is_refused=is_refused, is_silent=is_silent, now=self.now
            )

        self.at(self.random.uniform(0.0, 0.03) if is_open or is_refused else probe.patience, tell)

    def is_fenced(self, host: Host) -> bool:
        """Whether the controller has its present life fenced, or does not know it."""
        found = self.controller.node.controller.committed_image.brokers.get(host.number)
        return found is None or found.fenced or found.epoch != host.epoch

    def _look(self) -> None:
        for text in self.controller.warnings[self._warned :]:
            if "has ended: its connection was lost" in text or "is silent" in text:
                self._judge(text)
        self._warned = len(self.controller.warnings)
        for number, since in list(self._fenced_wrongly.items()):
            host = self.hosts[number]
            if not host.is_heard or not self.is_fenced(host):
                del self._fenced_wrongly[number]
            elif self.now - since > _BACK:
                raise BrokenPromiseError(f"broker {number} lives, and is fenced since {since:.2f} (now {self.now:.2f})")

    def _judge(self, text: str) -> None:
        words = text.split()
        host, epoch = self.hosts[int(words[1])], int(words[4])
        if epoch != host.epoch or not host.is_running:
            current = self.controller.node.controller.state.image.brokers[host.number]
            if host.is_running and host.epoch == current.epoch and current.fenced and host.epoch != epoch:
                raise BrokenPromiseError(f"{text}: but another life of it was fenced")
            return
        if "is silent" in text:
            self._judge_silence(text, host)
        elif not (host.was_open and host.has_refused):
            raise BrokenPromiseError(f"{text}: but it lives, and its port has not refused what it took before")
        self._fenced_wrongly[host.number] = self.now

    def _judge_silence(self, text: str, host: Host) -> None:
        if host.has_lost_nothing_lately:
            raise BrokenPromiseError(f"{text}: but it was reached")
        watched = [one for one in self.hosts.values() if one is host or not self.is_fenced(one)]
        # Who was heard may have been given up since. The others are heard between two attempts, which lie ever further
        # apart.
        if 2 * sum(one.was_reached(host.silent_before - STEP) for one in self.hosts.values()) < len(watched):
            raise BrokenPromiseError(f"{text}: but it is the controller that reaches nobody")

    # -- histories ---------------------------------------------------------------------------------------------------

    def play(self, seconds: float) -> None:
        """Let things happen for so long, then peace: all are in service again."""
        end = self.now + seconds
        while self.now < end:
            self.run(self.random.expovariate(0.8))
            self._happen()
        for host in self.hosts.values():
            host.is_cut = host.is_walled = host.is_paused = host.is_taken = False
            if host.is_running:
                host.reset()
            host.start()
        self.run(SESSION + 6.0)
        left = [host.number for host in self.hosts.values() if self.is_fenced(host)]
        if left:
            raise BrokenPromiseError(f"brokers {left} are not in service at {self.now:.2f}")

    def _happen(self) -> None:
        host = self.random.choice(list(self.hosts.values()))
        length = self.random.choice([0.02, 0.2, 1.0, 5.0, 12.0])
        happen = self.random.choice(
            [
                *(self._killed, self._killed, self._restarted, self._paused, self._cut, self._walled, self._reset),
                *(self._powerless, self._isolated),
            ]
        )
        happen(host, length)

    def _killed(self, host: Host, length: float) -> None:
        """End the process; its port may go to another one. In a while it is back."""
        is_certain = (
            host.is_heard and not self.is_fenced(host) and host.was_open and not host.is_walled and host.epoch >= 0
        )
        host.kill()
        host.is_taken = self.random.random() < 0.2
        life = host.life
        if is_certain and not host.is_taken and length > _SOON:
            host.is_cut = False
            self.at(_SOON, lambda: self._check_fenced(host, life))
        self.at(length, host.start)

    def _check_fenced(self, host: Host, life: int) -> None:
        was_quiet = (
            # What was tried while nothing got through takes its time.
            self.now - host.last_cut_at >= _SOON + _PATIENCE
            and host.life == life
            and not (host.is_cut or host.is_walled or host.is_running or host.is_taken)
        )
        if was_quiet and not self.is_fenced(host) and host.ended_at is not None:
            raise BrokenPromiseError(f"broker {host.number} has ended at {host.ended_at:.2f}, and is not fenced")

    def _restarted(self, host: Host, length: float) -> None:
        host.kill()
        host.start()

    def _paused(self, host: Host, length: float) -> None:
        host.is_paused = True
        if self.random.random() < 0.3:
            host.reset()

        def go_on() -> None:
            host.is_paused = False

        self.at(length, go_on)

    def _cut(self, host: Host, length: float) -> None:
        """Lose all packets; the controller may give the connection up meanwhile, or find it dead afterwards."""
        host.cut()
        if self.random.random() < 0.5:
            host.reset()

        def heal() -> None:
            host.is_cut = False
            host.reset()

        self.at(length, heal)

    def _powerless(self, host: Host, length: float) -> None:
        """End the machine, which says nothing; in a while it is back."""
        known = self.controller.node.probes._lives.get(host.number)
        is_certain = host.is_heard and not self.is_fenced(host) and known is not None and known.was_open
        host.cut()
        host.kill()
        life = host.life
        if is_certain and length > _SOON_SILENT:
            self.at(_SOON_SILENT, lambda: self._check_gone(host, life))

        def come_back() -> None:
            if host.life == life:
                host.is_cut = False
                host.reset()
                host.start()

        self.at(length, come_back)

    def _check_gone(self, host: Host, life: int) -> None:
        is_gone = host.life == life and host.is_cut and not host.was_reached(self.now - _SOON_SILENT)
        others = [one for one in self.hosts.values() if one is not host]
        were_there = all(one.is_heard and self.now - one.unheard_at > _SOON_SILENT for one in others)
        if is_gone and were_there and not self.is_fenced(host):
            raise BrokenPromiseError(f"the machine of broker {host.number} is gone, and it is not fenced")

    def _isolated(self, host: Host, length: float) -> None:
        """Cut the controller off from all brokers."""
        for one in self.hosts.values():
            self._cut(one, length)

    def _walled(self, host: Host, length: float) -> None:
        """Have the port refuse the controller, while the broker lives."""
        host.is_walled = True

        def fall() -> None:
            host.is_walled = False

        self.at(length, fall)

    def _reset(self, host: Host, length: float) -> None:
        host.reset()


def play(seed: int, seconds: float = 40.0) -> None:
    """Play one history; what is raised names the seed."""
    try:
        BrokerEnds(seed).play(seconds)
    except BrokenPromiseError as error:
        raise BrokenPromiseError(f"seed {seed}: {error}") from error
