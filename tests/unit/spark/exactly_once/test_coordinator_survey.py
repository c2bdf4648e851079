"""What is open is listed whole, however coordinators move meanwhile, die for good, or are cut off from the cluster.

In the model a controller says who leads a partition of `__transaction_state`, one of those in sync. Each broker hears
of it in its own time, of one or several changes at once, and does what it has heard in a second step, as Kafka's
brokers do; then it loads. A transaction is begun or ended by a leader that all in sync follow in its epoch.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest

from barnabas.protocol.coordinator_partition import partition_for
from barnabas.spark.exactly_once import coordinator_survey as protocol
from barnabas.spark.exactly_once.coordinator_survey import Leader

BROKERS, PARTITIONS = 3, 3
Change = tuple[int, Leader]


class Broker:
    """A broker: what it has heard, what it has done of that, what it coordinates."""

    def __init__(self) -> None:
        self.view = {partition: Leader(-1, 0) for partition in range(PARTITIONS)}
        self.heard = self.done = 0
        self.loading: set[int] = set()
        self.serves: dict[int, set[str]] = {}  # by partition, what is open
        self.is_dead = self.is_cut_off = False

    def hear(self, changes: list[Change]) -> None:
        self.view.update(changes)
        self.heard += len(changes)

    def act(self, number: int) -> None:
        self.done = self.heard
        for partition, leader in self.view.items():
            if leader.broker != number:
                self.serves.pop(partition, None)
                self.loading.discard(partition)
            elif partition not in self.serves:
                self.loading.add(partition)

    @property
    def is_well(self) -> bool:
        return not self.is_dead and not self.is_cut_off


class Cluster:
    """Brokers under a controller; everything that happens is one random step."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.changes: list[Change] = []
        self.leaders = {partition: Leader(-1, 0) for partition in range(PARTITIONS)}
        self.members = set(range(BROKERS))
        self.brokers = [Broker() for _ in range(BROKERS)]
        #: What the log of each partition says is open.
        self.open: dict[int, set[str]] = {partition: set() for partition in range(PARTITIONS)}
        self.names = 0
        self.in_sync = {partition: set(range(BROKERS)) for partition in range(PARTITIONS)}
        for partition in range(PARTITIONS):
            self.lead(partition, choose.randrange(BROKERS))
        self.settle()

    def settle(self) -> None:
        for number, broker in enumerate(self.brokers):
            while broker.is_well and self.goes_on(number):
                pass

    def lead(self, partition: int, broker: int) -> None:
        leader = Leader(broker, self.leaders[partition].epoch + 1)
        self.leaders[partition] = leader
        self.changes.append((partition, leader))

    def goes_on(self, number: int) -> bool:
        """Let a broker hear, act, or load; False where there is nothing to do."""
        broker = self.brokers[number]
        if not broker.is_well:
            return False
        if broker.done < broker.heard:
            broker.act(number)
        elif broker.loading and self.choose.random() < 0.7:
            partition = broker.loading.pop()
            broker.serves[partition] = set(self.open[partition])
        elif broker.heard < len(self.changes):
            broker.hear(self.changes[broker.heard : broker.heard + self.choose.randint(1, 3)])
        else:
            return bool(broker.loading)
        return True

    def step(self) -> None:
        kind = self.choose.random()
        if kind < 0.55:
            self.goes_on(self.choose.randrange(BROKERS))
        elif kind < 0.85:
            self.write(self.choose.randrange(PARTITIONS))
        elif kind < 0.92:
            self.move(self.choose.randrange(PARTITIONS))
        elif kind < 0.97:
            self.change_in_sync(self.choose.randrange(PARTITIONS), self.choose.randrange(BROKERS))
        else:
            self.fail(self.choose.randrange(BROKERS))

    def write(self, partition: int) -> None:
        """Begin a transaction, or end one, where that is committed."""
        leader = self.leaders[partition]
        broker = self.brokers[leader.broker]
        in_sync = [self.brokers[number] for number in self.in_sync[partition]]
        if leader.broker < 0 or partition not in broker.serves or not all(each.is_well for each in in_sync):
            return
        if any(each.view[partition] != leader for each in in_sync):
            return
        known = broker.serves[partition]
        if known and self.choose.random() < 0.5:
            name = self.choose.choice(sorted(known))
            known.discard(name)
            self.open[partition].discard(name)
            return
        while partition_for(f"q-{self.names}", PARTITIONS) != partition:
            self.names += 1
        known.add(f"q-{self.names}")
        self.open[partition].add(f"q-{self.names}")
        self.names += 1

    def move(self, partition: int) -> None:
        """Another leader, where there is one; or the same in a new epoch; or none for a while."""
        able = sorted(self.members & self.in_sync[partition])
        self.lead(partition, self.choose.choice([*able, *able, -1]))

    def change_in_sync(self, partition: int, number: int) -> None:
        """A broker falls behind, or has caught up with the leader; two always keep up, the first one among them."""
        leader, in_sync = self.leaders[partition], self.in_sync[partition]
        if number not in in_sync:
            broker = self.brokers[number]
            if broker.is_well and broker.view[partition] == leader and leader.broker >= 0:
                in_sync.add(number)
        elif number not in (0, leader.broker) and len(in_sync) > 2:
            in_sync.discard(number)

    def fail(self, number: int) -> None:
        """A broker dies for good, or is cut off from all but the driver; one of each at most."""
        broker = self.brokers[number]
        kind = self.choose.choice(["is_dead", "is_cut_off"])
        if number and broker.is_well and not any(getattr(each, kind) for each in self.brokers):
            setattr(broker, kind, True)

    def fence(self) -> None:
        """The controller takes note of who has failed."""
        for number in sorted(self.members):
            broker = self.brokers[number]
            if not broker.is_well:
                self.members.discard(number)
                for partition, leader in sorted(self.leaders.items()):
                    self.in_sync[partition].discard(number)
                    if leader.broker == number:
                        self.move(partition)


class Performer:
    """Asks one broker after the other; between any two of them something happens (`yield`)."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.waited: list[str] = []

    def order(self, brokers: Any) -> list[int]:
        return self.cluster.choose.sample(sorted(brokers), len(brokers))

    def ListOpenAtAll(self) -> Generator[None, None, protocol.Listed]:
        answers: dict[int, dict[str, int]] = {}
        silent: dict[int, str] = {}
        loading: set[int] = set()
        members = set(self.cluster.members)
        members |= {number for number, each in enumerate(self.cluster.brokers) if each.is_cut_off}
        for number in self.order(members):
            broker = self.cluster.brokers[number]
            if broker.is_dead:
                silent[number] = "does not answer"
            elif broker.loading:
                loading.add(number)
            else:
                answers[number] = {name: 7 for found in broker.serves.values() for name in found}
            yield
        return protocol.Listed(answers, frozenset(loading), silent)

    def AskLeaders(self, brokers: tuple[int, ...]) -> Generator[None, None, dict[int, dict[int, Leader]]]:
        views: dict[int, dict[int, Leader]] = {}
        for number in self.order(brokers):
            if not self.cluster.brokers[number].is_dead:
                views[number] = dict(self.cluster.brokers[number].view)
            yield
        return views

    def Probe(self, leaders: tuple[tuple[int, Leader], ...]) -> Generator[None, None, set[int]]:
        served = set()
        for partition, leader in leaders:
            broker = self.cluster.brokers[leader.broker]
            if not broker.is_dead and partition in broker.serves:
                served.add(partition)
            yield
        return served

    def Wait(self, why: str) -> Generator[None, None, None]:
        self.waited.append(why)
        for _ in range(self.cluster.choose.randint(1, 5)):
            yield


def drive(steps: Any, performer: Performer) -> Generator[None, None, dict[str, int]]:
    try:
        step = next(steps)
        while True:
            step = steps.send((yield from getattr(performer, type(step).__name__)(*step)))
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]


def problem_of(seed: int, surveys: int = 4, performer: type[Performer] = Performer) -> str:
    """Let a driver survey the cluster again and again while everything happens; returns what it has missed."""
    choose = random.Random(seed)
    cluster = Cluster(choose)
    asking, proven = performer(cluster), protocol.Proven()
    for _ in range(surveys):
        for _ in range(choose.randint(0, 30)):
            cluster.step()
        before = set().union(*cluster.open.values())
        survey, turns, found = drive(protocol.survey(proven), asking), 0, None
        stayed = set(before)
        while found is None:
            turns += 1
            if turns > 3000:
                return f"it waits for ever: {asking.waited[-3:]}"
            if turns < 400:
                for _ in range(choose.choice([0, 0, 1, 2, 6])):
                    cluster.step()
            else:
                cluster.fence()  # nothing happens any more but that what is known gets about
                for partition, leader in sorted(cluster.leaders.items()):
                    if leader.broker < 0:
                        cluster.move(partition)
                for number in range(BROKERS):
                    cluster.goes_on(number)
            if choose.random() < 0.05:
                cluster.fence()
            stayed &= set().union(*cluster.open.values())
            try:
                next(survey)
            except StopIteration as ended:
                found = set(ended.value)
        if missed := stayed - found:
            return f"not listed: {sorted(missed)}"
    return ""


@pytest.mark.parametrize(
    "start", [0, *(pytest.param(start, marks=pytest.mark.slow) for start in range(300, 9000, 300))]
)
def test_all_that_stays_open_is_listed_whoever_moves_or_dies(start: int) -> None:
    assert {seed: problem for seed in range(start, start + 300) if (problem := problem_of(seed))} == {}


class Trusting(Performer):
    """It takes the word of a broker that says that it leads for all that it should have loaded."""

    def Probe(self, leaders: tuple[tuple[int, Leader], ...]) -> Generator[None, None, set[int]]:
        yield
        return {partition for partition, _ in leaders}


class TakingLoadingForNothing(Trusting):
    """It takes a coordinator that is loading for one that has nothing open."""

    def ListOpenAtAll(self) -> Generator[None, None, protocol.Listed]:
        listed = yield from super().ListOpenAtAll()
        nothing: dict[int, dict[str, int]] = {broker: {} for broker in listed.loading}
        return protocol.Listed({**listed.answers, **nothing}, frozenset(), listed.silent)


class AskingTooEarly(Performer):
    """It asks who leads before it asks what is open."""

    def ListOpenAtAll(self) -> Generator[None, None, protocol.Listed]:
        self.views = yield from super().AskLeaders(tuple(range(BROKERS)))
        return (yield from super().ListOpenAtAll())

    def AskLeaders(self, brokers: tuple[int, ...]) -> Generator[None, None, dict[int, dict[int, Leader]]]:
        yield
        return {broker: view for broker, view in self.views.items() if broker in brokers}


class OverlookingWhoLoads(Performer):
    """It does not ask those that are loading what they know of the leaders."""

    def AskLeaders(self, brokers: tuple[int, ...]) -> Generator[None, None, dict[int, dict[int, Leader]]]:
        able = tuple(number for number in brokers if not self.cluster.brokers[number].loading)
        return (yield from super().AskLeaders(able))


def the_oldest(views: Any) -> dict[int, Leader]:
    """It believes a broker that was cut off, whoever else knows of a later epoch."""
    claims = [(at, leader) for number, view in views.items() for at, leader in view.items() if leader.broker == number]
    return _NEWEST(views) | dict(sorted(claims, key=lambda claim: -claim[1].epoch))


def not_listing_anew(proven: protocol.Proven) -> Any:
    """It takes what was listed before the proof."""
    while True:
        listed = yield protocol.ListOpenAtAll()
        views = yield protocol.AskLeaders((*listed.answers, *listed.loading))
        leaders = protocol._newest(views)
        if not protocol._unseen(leaders, listed, views):
            served = yield protocol.Probe(tuple(sorted(leaders.items())))
            if len(served) == PARTITIONS:
                return protocol._told_by_leaders(listed, leaders)
        yield protocol.Wait("")


_NEWEST = protocol._newest
FAULTS: dict[str, tuple[type[Performer], str, Any]] = {
    "who says that it leads is believed to have loaded": (Trusting, "", None),
    "who is loading counts as having nothing open": (TakingLoadingForNothing, "", None),
    "it is asked too early who leads": (AskingTooEarly, "", None),
    "who is loading is not asked who leads": (OverlookingWhoLoads, "", None),
    "an earlier epoch counts": (Performer, "_newest", the_oldest),
    "what was listed before the proof counts": (Performer, "survey", not_listing_anew),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_survey_without_one_of_its_rules_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    performer, attribute, mutated = FAULTS[name]
    if attribute:
        monkeypatch.setattr(protocol, attribute, mutated)
    assert any("not listed" in problem_of(seed, performer=performer) for seed in range(2000))
