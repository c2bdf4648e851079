"""Controllers on ZooKeeper under the same events, and machines that vanish: who is given up is gone, not cut off.

Some brokers are of Apache Kafka: they do not look themselves what has gone while they were given up.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.silent_machines import SilentMachines
from barnabas.broker.zookeeper.controller.active_controller import ActiveController
from barnabas.broker.zookeeper.controller.controller_broker_request_batch import ControllerBrokerRequestBatch
from barnabas.broker.zookeeper.controller.inquiries import Inquiries
from barnabas.protocol.topic_partition import TopicPartition
from tests.property.broker.zookeeper.test_controller_histories import EVENTS, History
from tests.support.controller_world import Member


class SilentHistory(History):
    """A run in which machines vanish, and links between members are cut; who is given up for that, the world checks.

    Up to two of the brokers are of Apache Kafka.
    """

    def __init__(self, seed: int) -> None:
        chance = random.Random(-seed)
        super().__init__(seed, chance.sample(range(1, 5), chance.choice((0, 1, 1, 2))))

    @property
    def events(self) -> list[Callable[[Any], None]]:
        return EVENTS + _SILENCES

    def cut(self) -> None:
        one, other = self.random.sample(sorted(self.world.members), 2)
        self.world.cut_link(one, other)

    def isolate(self) -> None:
        """Cut one off from all others, the controller mostly."""
        members = [*(member.id for member in self.world.controllers), self.random.choice(sorted(self.world.members))]
        self.world.isolate(members[0])

    def mend(self) -> None:
        self.world.cut.clear()

    def mend_one(self) -> None:
        if self.world.cut:
            del self.world.cut[self.random.choice(sorted(self.world.cut, key=sorted))]

    def wait(self) -> None:
        """Let time pass, in which those who wait for something see that it does not come."""
        for _ in range(self.random.randint(1, 12)):
            self.world.now += 0.3
            self.world.tick()
            for _ in range(20):
                self.random.choice(self.world.steps())()

    def refuse_for_a_while(self) -> None:
        """Have one that lives on taken for dead by a controller, or by all in turn, while topics go and move."""
        world, member = self.world, self.random.choice(self.world.running)
        owners = self.random.choice((world.controllers, world.running))
        world.refused |= {(owner.id, member.id) for owner in owners if owner is not member}
        world.reset(member.id)
        self.wait()
        for _ in range(self.random.randint(1, 4)):
            self.random.choice(_GOING)(self)
            for _ in range(6):
                self.wait()
                world.join_isrs()
        world.refused.clear()

    def heal(self) -> None:
        """Have one that is not restarted any more miss something in the end."""
        super().heal()
        for _ in range(self.random.randint(0, 2)):
            self.refuse_for_a_while()
        super().heal()

    def served(self, member: Member) -> set[TopicPartition]:
        """Return what is served of topics that there are.

        A replica of a topic whose end only an earlier controller has seen stays, and is no more told of.
        """
        topics = {topic: self.world.topic(topic).topic_id for topic in self.world.topics}
        held = member.broker.replicas
        return {name for name in super().served(member) if topics.get(name.topic) == held[name].topic_id}

    def vanish(self) -> None:
        """End the machine of one: its connections stay."""
        running = self.world.running
        if len(running) > 1:
            member = self.random.choice(running)
            self.world.isolate(member.id)
            member.kill()
            self.expiring.append(member)


#: What a broker misses that is taken for dead.
_GOING: list[Callable[[SilentHistory], None]] = [
    SilentHistory.create,
    SilentHistory.delete,
    SilentHistory.delete,
    SilentHistory.reassign,
    SilentHistory.depose,
]
_SILENCES: list[Callable[[SilentHistory], None]] = [
    SilentHistory.cut,
    SilentHistory.cut,
    SilentHistory.isolate,
    SilentHistory.mend,
    SilentHistory.mend_one,
    SilentHistory.vanish,
    *[SilentHistory.refuse_for_a_while] * 2,
    *[SilentHistory.wait] * 6,
]


# In 46 and 330 a controller goes on with half of a deletion; in 397 one is taken for dead from the first moment on; in
# 905 a partition that was added is taken back with the topic.
@pytest.mark.parametrize("seed", [*range(3), 46, 106, 153, 330, 397, 905])
def test_silent_machines_are_given_up_and_all_comes_to_its_end(seed: int) -> None:
    SilentHistory(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
def test_silent_machines_are_given_up_in_many_histories(seed: int) -> None:
    SilentHistory(seed).run()


# -- planted faults --------------------------------------------------------------------------------------------------


def cut_off_and_sure(patch: pytest.MonkeyPatch) -> None:
    """Who is cut off gives others up."""

    def asks(self: SilentMachines[Any], key: Any, _others: object) -> None:
        if key in self._silent:
            self._silent[key].is_backed = True

    patch.setattr(SilentMachines, "asks", asks)


def keep_no_last_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ActiveController, "_tell_what_was_missed", lambda _self, _broker: True)


def tell_another_broker(patch: pytest.MonkeyPatch) -> None:
    original = ControllerBrokerRequestBatch.send_ends

    def send(self: Any, broker: int, ended: Any, moved: Any) -> None:
        original(self, min(self._context.brokers.keys() - {broker}, default=broker), ended, moved)

    patch.setattr(ControllerBrokerRequestBatch, "send_ends", send)


def tell_of_the_end_after_the_beginning(patch: pytest.MonkeyPatch) -> None:
    """A topic that was made again meanwhile is deleted."""
    original = ActiveController._brokers_started

    def started(self: Any, brokers: Any) -> Any:
        missed = {number: self._last_told.pop(number, None) for number in brokers}
        yield from original(self, brokers)
        for number, told in missed.items():
            if told is not None:
                batch = self.environment.new_batch()
                batch.send_ends(number, told.ended(self.context), told.moved_away(self.context))

    patch.setattr(ActiveController, "_brokers_started", started)


def ask_no_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Inquiries, "begin", lambda _self, _brokers: None)


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (keep_no_last_told, 99),
        (tell_another_broker, 24),
        (tell_of_the_end_after_the_beginning, 309),
        (ask_no_one, 446),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are, in some hundred of histories; the first that shows one is where this begins."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        _play_silences(first, 300)


def test_who_is_cut_off_and_gives_others_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off_and_sure(monkeypatch)
    with pytest.raises(AssertionError, match="and is cut off"):
        _play_silences(0, 20)


def _play_silences(first: int, histories: int) -> None:
    for seed in range(first, first + histories):
        SilentHistory(seed).run()
