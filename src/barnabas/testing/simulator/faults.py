"""What goes wrong, and when."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from barnabas.testing.simulator.membership import GroupMember

if TYPE_CHECKING:
    from barnabas.testing.simulator.actors import Application
    from barnabas.testing.simulator.scenario import Scenario


#: Kinds that do most harm together, and rarely meet where each is chosen by itself.
THEMES = (
    ("stop", "power", "die", "crash"),
    ("zombie", "freeze client", "kill client"),
    ("partition", "block", "outrun member", "kill client"),
    ("bad log", "kill client", "freeze client"),
)


#: With so many members in all groups no more are started.
MOST_MEMBERS = 8


class Faults:
    """Draws for each run which kinds of faults there are and how many, and brings them about until `heal`."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._world = scenario.world
        self._random = scenario.world.stream("faults")
        self.duration = self._random.uniform(8, 25)
        self.is_over = False
        kinds: dict[str, Callable[[], None]] = {
            "cut": self._cut,
            "block": self._block,
            "partition": self._partition,
            "crash": self._crash,
            "die": self._die,
            "power": self._lose_power,
            "stop": self._stop,
            "full disk": self._fill_disk,
            "slow disk": self._slow_disk,
            "bad disk": self._spoil_disk,
            "bad log": self._spoil_log,
            "clock": self._jump_clock,
            "freeze client": self._freeze_client,
            "freeze broker": self._freeze_broker,
            "zombie": self._make_zombie,
            "outrun member": self._outrun_member,
            "kill client": self._kill_client,
            "bad network": self._bad_network,
        }
        self.kinds = {name: kinds[name] for name in self._choose(list(kinds))}
        #: Whether the power fails while there are acknowledged records that are not on the disk.
        self.loses_unflushed = "power" in self.kinds and not scenario.flushes
        if self.loses_unflushed:
            scenario.ledger.loses_unflushed = True

    def _choose(self, kinds: list[str]) -> Collection[str]:
        random = self._random
        if random.random() < 0.3:
            return random.choice(THEMES)
        if not self._scenario.flushes and random.random() < 0.2:
            # Where not every record is flushed most is to be learned from what a process or a machine leaves behind.
            return THEMES[0]
        return [name for name in kinds if random.random() < 0.35]

    def begin(self) -> None:
        """Let the first one come."""
        self._world.note("faults", f"to come: {', '.join(self.kinds) or 'none'}")
        self._scenario.network.splits = self._random.random() < 0.3
        if self.kinds:
            self._plan()

    def _plan(self) -> None:
        self._world.after(self._random.expovariate(1 / 1.7), self._strike)

    def _strike(self) -> None:
        if self.is_over:
            return
        name = self._random.choice(list(self.kinds))
        self.kinds[name]()
        self._plan()

    def heal(self) -> None:
        """Let all faults be over, and everything run again."""
        self.is_over = True
        scenario = self._scenario
        self._good_network()
        scenario.network.splits = False
        broker = scenario.broker
        broker.disk.slowness = broker.disk.errors = 0.0
        broker.disk.bad_directory = ""
        broker.disk.capacity = broker.disk.die_after = broker.disk.die_after_roll = None
        broker.process.clock_offset_ms = 0
        for actor in (actor for application in scenario.applications for actor in application.lives):
            actor.process.clock_offset_ms = 0
        self.repair()

    def repair(self) -> None:
        """Start the broker if it is down, and again if a failure of the disk has taken logs out of service."""
        broker = self._scenario.broker
        if broker.has_offline_logs:
            self._noted("the operator sees logs that are offline, and starts the broker again")
            broker.stop()
        broker.start()

    def _noted(self, what: str) -> None:
        self._world.note("faults", what)

    # --- the network

    def _cut(self) -> None:
        connections = list(self._scenario.network.connections)
        for connection in connections:
            if self._random.random() < 0.5:
                self._world.counts["connections cut"] += 1
                connection.cut()
        self._noted("connections are cut")

    def _block(self) -> None:
        connections = list(self._scenario.network.connections)
        if connections:
            chosen = self._random.choice(connections)
            which = self._random.choice(("to broker", "to client", "both"))
            seconds = self._random.choice((1.0, 5.0, 30.0))
            self._noted(f"a connection of {chosen.name} is half open ({which}) for {seconds} s")
            self._world.counts["connections half open"] += 1
            chosen.block(seconds, which)

    def _partition(self) -> None:
        self._cut_off(self._application(), self._random.uniform(0.5, 12))

    def _cut_off(self, application: Application, seconds: float) -> None:
        process = application.process
        self._noted(f"{process.name} is cut off for {seconds:.1f} s")
        self._world.counts["clients cut off"] += 1
        self._scenario.broker.partition(process, seconds)

    def _bad_network(self) -> None:
        network, random = self._scenario.network, self._random
        network.base_latency, network.jitter = random.choice(((0.001, 0.02), (0.02, 0.2), (0.1, 1.0)))
        network.loss = random.choice((0.0, 0.02, 0.1))
        self._noted(f"the network is slow: {network.base_latency}+{network.jitter} s, {network.loss:.0%} lost")
        self._world.counts["times of a bad network"] += 1
        self._world.after(random.uniform(1, 5), self._good_network)

    def _good_network(self) -> None:
        network = self._scenario.network
        network.base_latency, network.jitter, network.loss = 0.0005, 0.001, 0.0

    # --- the broker

    def _crash(self) -> None:
        broker = self._scenario.broker
        if broker.node is not None:
            broker.crash("by the operator")
            self._world.after(self._random.uniform(0.1, 4), broker.start)

    def _die(self) -> None:
        broker = self._scenario.broker
        disk = broker.disk
        if broker.node is None or disk.die_after is not None or disk.die_after_roll is not None:
            return
        broker.dies_by_power = "power" in self.kinds and self._random.random() < 0.5
        how = "lose its power" if broker.dies_by_power else "die"
        if self._random.random() < 0.5:
            disk.die_after_roll = self._random.randint(0, 8)
            self._noted(f"the broker will {how} {disk.die_after_roll} changes of the disk after the next new segment")
        else:
            disk.die_after = self._random.randint(0, 30)
            self._noted(f"the broker will {how} after {disk.die_after} changes of the disk")

    def _lose_power(self) -> None:
        broker = self._scenario.broker
        if broker.machine_is_up:
            broker.lose_power()
            self._world.after(self._random.uniform(0.5, 6), broker.start)

    def _stop(self) -> None:
        broker = self._scenario.broker
        if broker.node is not None:
            broker.stop()
            self._world.after(self._random.uniform(0.1, 3), broker.start)

    def _fill_disk(self) -> None:
        disk = self._scenario.broker.disk
        disk.leave_room(self._random.choice((0, 200, 5000)))
        self._noted("the disk is full")
        self._world.counts["times of a full disk"] += 1
        self._world.after(self._random.uniform(0.2, 5), self._empty_disk)

    def _empty_disk(self) -> None:
        self._scenario.broker.disk.capacity = None
        self._noted("the disk has room")

    def _slow_disk(self) -> None:
        disk = self._scenario.broker.disk
        disk.slowness = self._random.choice((0.001, 0.02, 0.2))
        self._noted("the disk is slow")
        self._world.counts["times of a slow disk"] += 1
        self._world.after(self._random.uniform(0.5, 5), self._fast_disk)

    def _fast_disk(self) -> None:
        self._scenario.broker.disk.slowness = 0.0

    def _spoil_disk(self) -> None:
        disk = self._scenario.broker.disk
        disk.errors = self._random.choice((0.1, 0.4))
        self._noted(f"{disk.errors:.0%} of the writes fail")
        self._world.after(self._random.uniform(0.5, 4), self._mend_disk)

    def _mend_disk(self) -> None:
        self._scenario.broker.disk.errors = 0.0

    def _spoil_log(self) -> None:
        """Let nothing be written to one log, one with an open transaction if there is any: its marker has to wait."""
        broker = self._scenario.broker
        logs = list(broker.node.logs.logs.values()) if broker.node is not None else []
        if not logs or broker.disk.bad_directory:
            return
        log = self._random.choice([log for log in logs if log.last_stable_offset < log.high_watermark] or logs)
        broker.disk.bad_directory = log.directory
        self._noted(f"nothing can be written to {log.directory}")
        self._world.counts["times of a bad log"] += 1
        self._world.after(self._random.uniform(0.5, 5), self._mend_log)

    def _mend_log(self) -> None:
        self._scenario.broker.disk.bad_directory = ""

    def _freeze_broker(self) -> None:
        broker = self._scenario.broker
        seconds = self._random.choice((0.2, 2.0, 8.0))
        broker.process.frozen_until = self._world.now + seconds
        self._noted(f"the broker is frozen for {seconds} s")
        self._world.counts["processes frozen"] += 1

    def _jump_clock(self) -> None:
        random = self._random
        process = self._scenario.broker.process if random.random() < 0.6 else self._application().process
        jump = random.choice((-3600_000, -5000, -100, 100, 5000, 3600_000))
        process.clock_offset_ms += jump
        self._noted(f"the clock of {process.name} jumps by {jump} ms")
        self._world.counts["clock jumps"] += 1

    # --- the clients

    def _application(self) -> Application:
        return self._random.choice(self._scenario.applications)

    def _freeze(self, application: Application, seconds: float) -> None:
        application.process.frozen_until = self._world.now + seconds
        self._noted(f"{application.process.name} is frozen for {seconds} s")
        self._world.counts["processes frozen"] += 1

    def _freeze_client(self) -> None:
        self._freeze(self._application(), self._random.choice((0.5, 3.0, 8.0, 15.0)))

    def _outrun_member(self) -> None:
        """Keep a member of a group away, a static one if there is any, while one more joins, or another is replaced."""
        members = [app.lives[-1] for app in self._scenario.applications if issubclass(app.kind, GroupMember)]
        now = self._world.now
        found = [
            actor
            for actor in members
            if isinstance(actor, GroupMember) and not actor.is_over and actor.process.frozen_until <= now
        ]
        if not found:
            return
        outrun = self._random.choice([actor for actor in found if actor.is_static] or found)
        if self._random.random() < 0.2:
            self._freeze(outrun.application, self._random.choice((5.0, 10.0)))
        else:
            self._cut_off(outrun.application, self._random.uniform(4, 12))
        others = [actor for actor in found if actor is not outrun and actor.group == outrun.group]
        if not others:
            return
        self._world.counts["members outrun"] += 1
        other = self._random.choice(others)
        if other.is_static or len(found) > MOST_MEMBERS:
            self._kill(other.application)
        else:
            self._noted(f"{other.name} gets one more process")
            other.application.start()

    def _make_zombie(self) -> None:
        # Whoever watches it takes it for dead, and starts another one; both have the same names and ids.
        application = self._application()
        if application.is_alive and not application.is_stopping:
            self._freeze(application, self._random.choice((0.1, 0.5, 3.0, 12.0)))
            self._world.counts["zombies"] += 1
            application.start()

    def _kill_client(self) -> None:
        application = self._application()
        if application.is_alive:
            self._kill(application)

    def _kill(self, application: Application) -> None:
        self._noted(f"{application.process.name} is killed")
        application.kill()
        self._world.after(self._random.uniform(0.1, 3), application.start)
