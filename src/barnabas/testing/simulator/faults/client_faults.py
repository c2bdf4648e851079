"""What goes wrong with the processes of clients, and with clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.testing.simulator.faults.group import FaultGroup
from barnabas.testing.simulator.membership import GroupMember
from barnabas.testing.simulator.parts import Parts

if TYPE_CHECKING:
    from barnabas.testing.simulator.actors import Application

#: With so many members in all groups no more are started.
MOST_MEMBERS = 8
#: From so many seconds on a member stays for the whole run.
STAYS = 1000.0


class ClientFaults(FaultGroup[Parts]):
    """What goes wrong with the processes of clients, and with clocks."""

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {
            "clock": self._jump_clock,
            "freeze client": self._freeze_client,
            "zombie": self._make_zombie,
            "outrun member": self._outrun_member,
            "kill client": self._kill_client,
            "lose client": self._lose_client,
            "hang member": self._hang_member,
        }

    def _jump_clock(self) -> None:
        random = self._random
        machine = self._parts.network.any_machine(random) if random.random() < 0.6 else None
        process = self._application().process if machine is None else machine.process
        jump = random.choice((-3600_000, -5000, -100, 100, 5000, 3600_000))
        process.clock_offset_ms += jump
        self._noted(f"the clock of {process.name} jumps by {jump} ms")
        self._world.counts["clock jumps"] += 1

    def _freeze(self, application: Application, seconds: float) -> None:
        application.process.frozen_until = self._world.now + seconds
        self._noted(f"{application.process.name} is frozen for {seconds} s")
        self._world.counts["processes frozen"] += 1

    def _freeze_client(self) -> None:
        self._freeze(self._application(), self._random.choice((0.5, 3.0, 8.0, 15.0)))

    def _outrun_member(self) -> None:
        """Keep a member of a group away, a static one if there is any, while one more joins, or another is replaced."""
        members = [app.lives[-1] for app in self._parts.applications if issubclass(app.kind, GroupMember)]
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
        # A supervisor takes it for dead, and starts another one; both have the same names and ids.
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

    def _lose_client(self) -> None:
        self._lose(self._random.choice(self._parts.applications))

    def _lose(self, application: Application) -> None:
        """Let an application die and never come back: what it held only the broker's time-outs can end."""
        if not application.is_alive or application.is_stopping or not self._is_replaceable(application):
            return
        self._noted(f"{application.process.name} dies, and nobody starts it again")
        self._world.counts["clients gone for good"] += 1
        application.lose()

    def _is_replaceable(self, application: Application) -> bool:
        """Whether its group has another member to read everything, and will notice that it is gone.

        In Apache Kafka, too, a rebalance renews the session of a static member that is away: where others come and go
        more often than that session lasts, the dead one stays a member for ever.
        """
        group = application.arguments.get("group")
        others = [other for other in self._parts.applications if other is not application and other.is_alive]
        if not issubclass(application.kind, GroupMember):
            return True
        if application.arguments["is_static"] and application.arguments["stay"] < STAYS:
            return False
        return any(issubclass(other.kind, GroupMember) and other.arguments.get("group") == group for other in others)

    def _hang_member(self) -> None:
        """Let an application stop reading while its client goes on with its heartbeats."""
        members = [app.lives[-1] for app in self._parts.applications if issubclass(app.kind, GroupMember)]
        found = [actor for actor in members if isinstance(actor, GroupMember) and not actor.is_over]
        if found:
            actor = self._random.choice(found)
            actor.hangs_until = self._world.now + self._random.choice((1.0, 4.0, 9.0, 16.0))
            self._noted(f"{actor.life} does nothing but its heartbeats for {actor.hangs_until - self._world.now} s")
            self._world.counts["members that hang"] += 1

    def heal(self) -> None:
        """See `FaultGroup`; what was held by the last one to go is taken over when its session is over, not before."""
        if "lose client" in self.chosen:
            members = [app for app in self._parts.applications if issubclass(app.kind, GroupMember)]
            for group in dict.fromkeys(app.arguments["group"] for app in members):
                self._lose(self._random.choice([app for app in members if app.arguments["group"] == group]))
        for actor in (actor for application in self._parts.applications for actor in application.lives):
            actor.process.clock_offset_ms = 0
