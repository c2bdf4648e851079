"""Quix Streams' side of `race_streams`: _quix_streams.py SERVERS JOB SOURCE TARGET ID FOLDER."""

from __future__ import annotations

import sys
from datetime import timedelta

from quixstreams import Application, State  # type: ignore[import-not-found]  # it has an environment of its own


def main(servers: str, kind: str, source: str, target: str, id: str, folder: str) -> None:
    """Run the application until it is killed."""
    application = Application(
        broker_address=servers,
        consumer_group=id,
        processing_guarantee="exactly-once",
        auto_offset_reset="earliest",
        commit_interval=0.1,
        state_dir=f"{folder}/{id}",
        loglevel="ERROR",
    )
    text = "string"
    frame = application.dataframe(application.topic(source, key_deserializer=text, value_deserializer=text))
    windows = frame.tumbling_window(timedelta(minutes=1)).count() if kind in ("windows", "suppress") else None
    if kind == "map":
        frame = frame.filter(lambda value: value[0] != "0").apply(lambda value: value + "!")
    elif kind == "count":
        frame = frame.apply(counted, stateful=True)
    elif kind == "windows":
        frame = windows.current().apply(lambda window: window["value"])
    elif kind == "suppress":
        frame = windows.final().apply(lambda window: window["value"])
    elif kind == "streams":
        topic = application.topic(f"{source}-right", key_deserializer=text, value_deserializer=text)
        second, joined = timedelta(seconds=1), lambda one, other: one[:8] + other[:8]
        right = application.dataframe(topic)
        frame = frame.join_interval(right, on_merge=joined, backward_ms=second, forward_ms=second, grace_ms=second)
    else:
        raise SystemExit(f"Quix Streams has no {kind}")
    kept = text if kind in ("map", "streams") else "integer"
    frame.to_topic(application.topic(target, key_serializer=text, value_serializer=kept))
    application.run()


def counted(value: str, state: State) -> int:
    """Count a key's records."""
    number: int = state.get("count", 0) + 1
    state.set("count", number)
    return number


main(*sys.argv[1:])
