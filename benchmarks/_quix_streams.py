"""Quix Streams' side of `race_streams`: _quix_streams.py SERVERS JOB SOURCE TARGET ID FOLDER."""

from __future__ import annotations

import sys
from datetime import timedelta

from quixstreams import Application  # type: ignore[import-not-found]  # it has an environment of its own


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
    if kind == "map":
        frame = frame.filter(lambda value: value[0] != "0").apply(lambda value: value + "!")
        frame.to_topic(application.topic(target, key_serializer=text, value_serializer=text))
    else:
        counts = frame.tumbling_window(timedelta(minutes=1)).count().current()
        counts = counts.apply(lambda window: window["value"])
        counts.to_topic(application.topic(target, key_serializer=text, value_serializer="integer"))
    application.run()


main(*sys.argv[1:])
