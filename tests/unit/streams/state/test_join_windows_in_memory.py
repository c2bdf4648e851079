"""What a join of streams keeps, in memory and on disk: a record without a value moves the time of the one only."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.streams import JoinWindows, Serdes, StreamJoined, StreamsBuilder, TopologyTestDriver

TEXT: Any = Serdes.string()


@pytest.mark.parametrize(("persistent", "joined", "dropped"), [(True, ["a&x"], 2), (False, [], 3)])
def test_a_record_without_a_value_moves_the_time_of_windows_in_memory(
    persistent: bool, joined: list[str], dropped: int
) -> None:
    builder = StreamsBuilder()
    left = builder.stream("left", key=TEXT, value=TEXT)
    kept = StreamJoined.with_(TEXT, TEXT, TEXT).with_store_type(persistent=persistent)
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    left.join(builder.stream("right", key=TEXT, value=TEXT), lambda one, other: f"{one}&{other}", windows, kept).to(
        "out", key=TEXT, value=TEXT
    )

    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        topics = {name: driver.create_input_topic(name, TEXT, TEXT) for name in ("left", "right")}
        topics["left"].pipe_input("a", "k", timestamp=0)
        topics["left"].pipe_input(None, "k", timestamp=100)
        topics["left"].pipe_input(None, "k", timestamp=1)
        topics["right"].pipe_input("x", "k", timestamp=5)
        out = driver.create_output_topic("out", TEXT, TEXT)

        assert out.read_values_to_list() == joined
        assert driver.dropped_records == dropped, "both without a value, and in memory the one that came too late"
