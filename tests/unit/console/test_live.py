"""Streams of events: bounded, whole states, ended with the hub."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.console import live
from barnabas.console.live import Hub, encoded
from barnabas.errors import IllegalArgumentError, IllegalStateError


def run(steps: Any) -> Any:
    return asyncio.run(asyncio.wait_for(steps, 10))


def test_a_stream_begins_with_the_last_state_and_skips_what_is_outdated() -> None:
    async def steps() -> list[bytes]:
        hub = Hub(["a", "b"])
        hub.publish("a", 1)
        events = hub.events(["a"])
        seen = [await anext(events), await anext(events)]
        hub.publish("b", "not asked for")
        for number in (2, 3, 4):
            hub.publish("a", number)
        seen.append(await anext(events))
        hub.close()
        return seen + [event async for event in events]

    assert run(steps()) == [b": open\n\n", encoded("a", 1), encoded("a", 4)]


def test_nobody_watches_once_the_last_stream_is_closed() -> None:
    async def steps() -> None:
        hub = Hub(["a"])
        first, second = hub.events(["a"]), hub.events(["a"])
        assert not hub.is_watched
        await anext(first)
        await anext(second)
        await first.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert hub.is_watched
        await second.aclose()  # type: ignore[attr-defined]  # likewise
        assert not hub.is_watched

    run(steps())


def test_streams_are_bounded_and_their_kinds_checked() -> None:
    async def steps() -> None:
        hub = Hub(["a"])
        with pytest.raises(IllegalArgumentError, match="kinds must be some of a"):
            hub.check(["a", "b"])
        streams = [hub.events(["a"]) for _ in range(live.MOST_STREAMS)]
        for stream in streams:
            await anext(stream)
        with pytest.raises(IllegalStateError, match="open already"):
            hub.check(["a"])
        await streams[0].aclose()  # type: ignore[attr-defined]  # it is a generator
        hub.check(["a"])
        hub.close()

    run(steps())


def test_a_stream_shows_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "KEEP_ALIVE_SECONDS", 0.01)

    async def steps() -> bytes:
        events = Hub(["a"]).events(["a"])
        await anext(events)
        return await anext(events)

    assert run(steps()) == b": still here\n\n"


def test_data_cannot_forge_an_event() -> None:
    state = {"name": "x\n\nevent: evil\ndata: 1\u2028\ud800"}

    lines = encoded("a", state).decode().split("\n")

    assert lines[0] == "event: a"
    assert lines[1].startswith("data: {")
    assert lines[2:] == ["", ""]
