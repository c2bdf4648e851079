"""The Handover, interleaving by interleaving: who runs, who waits for what, and what each of them gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from barnabas.errors import IllegalArgumentError
from barnabas.spark.handover import ClosedError, Handover, WokenError
from tests.support.interleaving import Stage, end_all


@pytest.fixture(autouse=True)
def _actors_end() -> Iterator[None]:
    yield
    end_all()


PRODUCE = "barnabas.spark.handover:Handover.produce"
POLL_NEXT = "barnabas.spark.handover:Handover.poll_next"
WAKEUP = "barnabas.spark.handover:Handover.wakeup_producer"
REPORT = "barnabas.spark.handover:Handover.report_error"
CLOSE = "barnabas.spark.handover:Handover.close"


class BrokenError(Exception):
    """An error of the thread that polls."""


FIRST, SECOND = BrokenError("first"), BrokenError("second")
Call = tuple[str, ...]


class Case(NamedTuple):
    """What is done before anyone meets, who then calls what, in which order they run, and how it ends."""

    before: list[tuple[Any, ...]]
    actors: dict[str, tuple[Any, ...]]
    steps: list[tuple[str, str]]  # an actor runs until it waits or ends, and is then in this state
    ends: dict[str, Any]  # an actor's result, or the kind of error it got
    slot: Any = None  # what the slot holds in the end
    hold: str = ""  # this actor stops for once inside the lock


def shows(name: str, lines: list[str], breaks: str, case: Case) -> Any:
    return pytest.param(case, id=name, marks=[pytest.mark.shows(line, breaks=breaks) for line in lines])


def fill(*elements: str) -> list[tuple[Any, ...]]:
    return [("produce", element) for element in elements]


CASES = [
    shows("steps 1 to 5: both arrive together, the producer is first and the consumer blocks at the door",
          ["S0.58", "S0.57"], PRODUCE,
          Case([], {"P": ("produce", "a"), "C": ("poll_next",)},
               [("P", "held"), ("C", "blocked"), ("C", "blocked"), ("P", "done"), ("C", "done")],
               {"P": None, "C": "a"}, hold="P")),
    shows("steps 6 to 11: the consumer finds the slot empty, lets go of the lock, and is woken by the producer",
          ["S0.59", "S0.52"], POLL_NEXT,
          Case([], {"C": ("poll_next",), "P": ("produce", "a")},
               [("C", "waiting"), ("C", "waiting"), ("P", "done"), ("C", "done")], {"C": "a", "P": None})),
    shows("steps 12 to 17: the producer finds the slot full, and fills it once the consumer has taken",
          ["S0.60", "S0.45"], PRODUCE,
          Case(fill("a"), {"P": ("produce", "b"), "C": ("poll_next",)},
               [("P", "waiting"), ("P", "waiting"), ("C", "done"), ("P", "done")], {"C": "a", "P": None}, "b")),
    shows("a free slot takes the element, and another take hands it out", ["S0.49"], PRODUCE,
          Case([], {"P": ("produce", "a")}, [("P", "done")], {"P": None}, "a")),
    shows("taking empties the slot", ["S0.53"], POLL_NEXT,
          Case(fill("a"), {"C": ("poll_next",), "D": ("poll_next",)},
               [("C", "done"), ("D", "waiting")], {"C": "a"})),
    shows("a producer woken while the slot is full keeps its batch, and the slot keeps its own", ["S0.47"], PRODUCE,
          Case(fill("a"), {"P": ("produce", "b"), "W": ("wakeup_producer",)},
               [("P", "waiting"), ("W", "done"), ("P", "done")], {"P": WokenError}, "a")),
    shows("woken although a take made room just before: the element is accepted", ["S0.48"], PRODUCE,
          Case(fill("a"), {"P": ("produce", "b"), "C": ("poll_next",), "W": ("wakeup_producer",)},
               [("P", "waiting"), ("C", "done"), ("W", "done"), ("P", "done")], {"P": None, "C": "a"}, "b")),
    shows("a wake-up with nobody to wake is kept for the next call, which a full slot then turns away",
          ["S0.48"], WAKEUP,
          Case([*fill("a"), ("wakeup_producer",)], {"P": ("produce", "b")}, [("P", "done")], {"P": WokenError}, "a")),
    shows("a wake-up is used up by a call that finds the slot free", ["S0.46", "S0.48"], PRODUCE,
          Case([("wakeup_producer",), *fill("a")], {"P": ("produce", "b")}, [("P", "waiting")], {}, "a")),
    shows("an error wakes the consumer that waits", ["S0.56"], REPORT,
          Case([], {"C": ("poll_next",), "E": ("report_error", FIRST)},
               [("C", "waiting"), ("E", "done"), ("C", "done")], {"C": FIRST})),
    shows("an error empties the slot: the batch in it is not handed out", ["S0.54"], REPORT,
          Case([*fill("a"), ("report_error", FIRST)], {"C": ("poll_next",)}, [("C", "done")], {"C": FIRST})),
    shows("the first error wins", ["S0.56"], REPORT,
          Case([("report_error", FIRST), ("report_error", SECOND)], {"C": ("poll_next",)},
               [("C", "done")], {"C": FIRST})),
    shows("closing does not hide an error", ["S0.56"], REPORT,
          Case([("report_error", FIRST), ("close",)], {"C": ("poll_next",)}, [("C", "done")], {"C": FIRST})),
    shows("an error ends the wait of the producer, whose batch is not taken", ["S0.50"], PRODUCE,
          Case(fill("a"), {"P": ("produce", "b"), "E": ("report_error", FIRST)},
               [("P", "waiting"), ("E", "done"), ("P", "done")], {"P": ClosedError})),
    shows("closing ends the wait of the producer", ["S0.50"], CLOSE,
          Case(fill("a"), {"P": ("produce", "b"), "X": ("close",)},
               [("P", "waiting"), ("X", "done"), ("P", "done")], {"P": ClosedError, "X": "a"})),
    shows("closing ends the wait of the consumer", ["S0.54"], CLOSE,
          Case([], {"C": ("poll_next",), "X": ("close",)},
               [("C", "waiting"), ("X", "done"), ("C", "done")], {"C": ClosedError, "X": None})),
    shows("closing forgets a wake-up, and takes nothing more", ["S0.50"], CLOSE,
          Case([("wakeup_producer",), ("close",)], {"P": ("produce", "a")}, [("P", "done")], {"P": ClosedError})),
    shows("two waiting consumers and one batch: one takes it, the other waits on", ["S0.55", "S0.57"], POLL_NEXT,
          Case([], {"C": ("poll_next",), "D": ("poll_next",), "P": ("produce", "a")},
               [("C", "waiting"), ("D", "waiting"), ("P", "done"), ("C", "done"), ("D", "waiting")], {"C": "a"})),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_interleaving(case: Case) -> None:
    stage = Stage()
    handover: Handover[str] = Handover(stage)
    for call in case.before:
        actor = stage.actor("before", calling(handover, call))
        assert actor.run() == "done"
    actors = {name: stage.actor(name, calling(handover, call)) for name, call in case.actors.items()}
    if case.hold:
        stage.hold_inside(actors[case.hold])

    states = [(name, actors[name].run()) for name, _ in case.steps]

    assert states == case.steps
    for name, end in case.ends.items():
        check_end(actors[name], end)
    assert handover._next == case.slot  # white box: what is left in the slot


def calling(handover: Handover[str], call: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: getattr(handover, call[0])(*call[1:])


def check_end(actor: Any, end: Any) -> None:
    if isinstance(end, BaseException):
        assert actor.error is end
    elif isinstance(end, type):
        assert type(actor.error) is end
    else:
        assert (actor.error, actor.result) == (None, end)


@pytest.mark.shows("S0.44", breaks=PRODUCE)
def test_none_cannot_be_handed_over() -> None:
    handover: Handover[Any] = Handover(Stage())

    with pytest.raises(IllegalArgumentError, match="empty slot"):
        handover.produce(None)


@pytest.mark.shows("S0.54", breaks=POLL_NEXT)
def test_a_batch_in_the_slot_goes_before_an_error() -> None:
    handover: Handover[str] = Handover(Stage())
    handover._next, handover._error = "a", FIRST  # no call leads here: errors empty the slot
    stage = handover._lock

    taken = [stage.actor("C", handover.poll_next) for _ in range(2)]  # type: ignore[attr-defined]  # a Stage
    states = [actor.run() for actor in taken]

    assert states == ["done", "done"]
    assert (taken[0].result, taken[1].error) == ("a", FIRST)


@pytest.mark.shows("S0.61", breaks=PRODUCE)
@pytest.mark.shows("S0.61", breaks=POLL_NEXT)
def test_every_put_and_every_take_notifies() -> None:
    stage = Stage()
    handover: Handover[str] = Handover(stage)
    counts = []

    for work in (lambda: handover.produce("a"), handover.poll_next, lambda: handover.produce("b")):
        assert stage.actor("one", work).run() == "done"
        counts.append(stage.notifications)

    assert counts == [1, 2, 3]


@pytest.mark.shows("S0.42", breaks="barnabas.spark.handover:Handover.__init__")
def test_it_holds_a_lock_a_slot_an_error_and_a_flag() -> None:
    handover: Handover[str] = Handover()

    assert set(vars(handover)) == {"_lock", "_next", "_error", "_is_producer_woken"}
    assert (handover._next, handover._error, handover._is_producer_woken) == (None, None, False)


@pytest.mark.shows("S0.51", breaks=PRODUCE)
def test_whatever_happens_produce_raises_nothing_but_wakeup_and_closed() -> None:
    endings = set()
    events: list[tuple[Any, ...]] = [("close",), ("report_error", FIRST), ("wakeup_producer",), ("poll_next",)]
    for event in events:
        stage = Stage()
        handover: Handover[str] = Handover(stage)
        stage.actor("before", calling(handover, ("produce", "a"))).run()
        producer = stage.actor("P", calling(handover, ("produce", "b")))
        producer.run()
        stage.actor("event", calling(handover, event)).run()
        assert producer.run() == "done"
        endings.add(type(producer.error))

    assert endings == {ClosedError, WokenError, type(None)}


@pytest.mark.shows("S0.43", breaks=PRODUCE)
@pytest.mark.shows("S0.62", breaks=PRODUCE)
def test_a_slow_consumer_has_one_batch_wait_and_one_in_the_producers_hand() -> None:
    stage = Stage()
    handover: Handover[int] = Handover(stage)
    polled: list[int] = []

    def produce_all() -> None:
        for number in range(10):
            polled.append(number)  # fetched, in the hand
            handover.produce(number)

    producer = stage.actor("P", produce_all)
    ahead, taken = [], []
    for _ in range(10):
        producer.run()
        ahead.append(len(polled) - len(taken))
        consumer = stage.actor("C", handover.poll_next)
        assert consumer.run() == "done"
        taken.append(consumer.result)

    assert max(ahead) == 2
    assert taken == list(range(10))  # none overwritten, none dropped, in order


def test_real_threads_of_different_speed_exchange_every_batch_once_and_in_order() -> None:
    import threading

    handover: Handover[int] = Handover()
    producer = threading.Thread(target=lambda: [handover.produce(number) for number in range(2000)], daemon=True)
    producer.start()

    taken = [handover.poll_next() for _ in range(2000)]
    producer.join(10)

    assert taken == list(range(2000))
    assert not producer.is_alive()
