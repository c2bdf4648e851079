"""Requests between processes: what client and broker tell is one picture, in the order of causes, on any clocks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.anatomy import events as e
from barnabas.anatomy.clocks import of_this_machine, shifts
from barnabas.anatomy.events import Event
from barnabas.anatomy.film import Film, subjects
from barnabas.anatomy.picture import Picture
from barnabas.anatomy.recording import Recording, merged
from barnabas.anatomy.scenes import SCENES
from tests.unit.anatomy.test_scenes import run

__all__ = ["run"]

#: A Fetch that waits for data: at the client, at the broker, at the client.
ASKED: tuple[Event, ...] = (e.RequestUnsent("c", 4, 1, "FETCH", 7), e.RequestInFlight("c", 4, 1, "FETCH", 7, 80, 5000))
SERVED: tuple[Event, ...] = (
    e.RequestReceived(1, "c", 5000, "FETCH", 7, 80), e.RequestParked(1, "c", 5000, "FETCH", 7),
    e.ResponseSent(1, "c", 5000, "FETCH", 7, 900),
)  # fmt: skip
TAKEN: tuple[Event, ...] = (e.RequestAnswered("c", 4, 1, "FETCH", 7, ""), e.RequestCompleted("c", 4, 7))
WAY = (*ASKED, *SERVED, *TAKEN)
LANES = ("unsent", "left", "handled", "parked", "answered", "pending", "over")


def places(picture: Picture) -> list[tuple[str, str, str]]:
    """Where which request is: lane, api, kind."""
    return [(one.title.removeprefix("exchange_"), box.label, box.kind) for one in picture.lanes for box in one.boxes]


def played(*told: Event) -> Picture:
    scene = SCENES["exchange"]("c")
    for event in told:
        scene.apply(event)
    return scene.picture()


def test_a_request_leaves_is_handled_waits_is_answered_and_comes_back() -> None:
    assert [places(played(*WAY[: n + 1]))[0][0] for n in range(len(WAY))] == list(LANES)
    (over,) = played(*WAY).lanes[-1].boxes
    assert over.facts == {"correlation": 7, "port": 5000, "broker": 1, "size": 80, "answer": 900}


@given(st.permutations(WAY[2:]))
def test_what_is_told_late_takes_no_request_back(told: list[Event]) -> None:
    scene = SCENES["exchange"]("c")
    seen = []
    for event in (*WAY[:2], *told):
        scene.apply(event)
        seen += [place for place, *_ in places(scene.picture())]
    assert [LANES.index(place) for place in seen] == sorted(LANES.index(place) for place in seen)
    assert len(places(scene.picture())) == 1


def test_a_client_that_is_not_recorded_and_a_broker_that_is_not_show_the_other_side() -> None:
    assert [places(played(*SERVED[: n + 1])) for n in range(3)] == [
        [("handled", "FETCH", "open")], [("parked", "FETCH", "waiting")], [("over", "FETCH", "good")],
    ]  # fmt: skip
    assert places(played(*ASKED)) == [("left", "FETCH", "moving")]
    assert places(played(*ASKED, *TAKEN)) == [("over", "FETCH", "good")]


def test_the_same_correlation_id_on_another_connection_is_another_request() -> None:
    other = e.RequestReceived(2, "c", 6000, "METADATA", 7, 20)
    assert places(played(*ASKED, other)) == [("left", "FETCH", "moving"), ("handled", "METADATA", "open")]
    assert places(played(*ASKED, other._replace(client="d"))) == [("left", "FETCH", "moving")]


def test_requests_end_with_their_connection_and_the_port_may_be_used_again() -> None:
    ended = e.ConnectionEnded(1, 5000)
    assert places(played(*ASKED, *SERVED[:2], ended)) == [("over", "FETCH", "bad")]
    assert places(played(*ASKED, *SERVED, ended)) == [("over", "FETCH", "good")]
    refused = played(*ASKED, SERVED[0], e.RequestAnswered("c", 4, 1, "FETCH", 7, "timed out"))
    assert refused.lanes[-2].boxes[0].facts["error"] == "timed out"
    again = played(*WAY, ended, SERVED[0])
    assert places(again)[0] == ("handled", "FETCH", "open")
    assert not SCENES["exchange"]("c").apply(ended)


def recordings(later: float, clock: str = "") -> list[Recording]:
    """The client's and the broker's side of three requests, the broker's clock being so much later."""
    client: list[tuple[float, Event]] = []
    broker: list[tuple[float, Event]] = []
    for number in range(3):
        ways = [event._replace(correlation=number) for event in WAY]
        at = [10.0 * number + step for step in range(len(ways))]
        client += [(at[n], ways[n]) for n in (0, 1, 5, 6)]
        broker += [(at[n] + later, ways[n]) for n in (2, 3, 4)]
    return [Recording("client", client, clock=clock), Recording("broker", broker, clock=clock)]


@pytest.mark.parametrize("later", [0.0, 3600.0, -86400.0, 4.0, -3.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_clocks_that_are_apart_are_brought_together_by_the_requests(later: float, reverse: bool) -> None:
    told = merged(recordings(later)[:: -1 if reverse else 1]).events
    names = [type(event).__name__ for _, event in told]
    assert names == [type(event).__name__ for event in WAY] * 3
    assert all(one[0] <= other[0] for one, other in pairwise(told))


def test_clocks_that_are_the_same_are_left_alone_and_so_are_processes_that_say_nothing_to_one_another() -> None:
    assert shifts([(found.clock, found.events) for found in recordings(50.0, "boot")]) == [0.0, 0.0]
    assert shifts([("", [(1.0, e.PollEntered("a"))]), ("", [(900.0, e.PollEntered("b"))])]) == [0.0, 0.0]
    assert shifts([]) == []
    assert of_this_machine() == of_this_machine()


def test_in_a_whole_run_every_request_goes_its_way_in_order(run: Recording) -> None:
    order = [type(event).__name__ for event in WAY]
    ways: dict[tuple[str, int, int], list[str]] = {}
    ports: dict[tuple[str, int, int], int] = {}
    for _, event in run.events:
        if isinstance(event, e.RequestInFlight):
            ports[event.client, event.core, event.correlation] = event.port
        # A client that has given up does not wait for the broker, which may still work on its request.
        if isinstance(event, e.RequestAnswered) and not event.error:
            port = ports[event.client, event.core, event.correlation]
        elif isinstance(event, e.RequestInFlight | e.RequestReceived | e.RequestParked | e.ResponseSent):
            port = event.port
        else:
            continue
        # The cluster that the recording ends with has no ports.
        if port:
            ways.setdefault((event.client, port, event.correlation), []).append(type(event).__name__)

    assert all(way == sorted(way, key=order.index) for way in ways.values())
    whole = [way for way in ways.values() if way[0] == "RequestInFlight" and way[-1] == "RequestAnswered"]
    assert sum("ResponseSent" in way for way in whole) > 1000
    assert sum("RequestParked" in way for way in whole) > 100
    for subject in subjects(run.events)["exchange"]:
        film = Film(run.events, "exchange", subject)
        assert sum(len(one.boxes) + one.more for one in film.step(len(film) - 1).picture.lanes[:-1]) < 10, subject
