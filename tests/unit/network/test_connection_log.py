"""One line a minute on a broker that is away, and one when it is back."""

from __future__ import annotations

import logging

import pytest

from barnabas.network.connection_log import ConnectionLog
from barnabas.network.selectable import Disconnection

REFUSED = Disconnection("Connection refused", "broker:9092", was_connected=False)


def test_a_broker_that_is_away_is_named_once_a_minute_and_once_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "barnabas.network")
    said = ConnectionLog("me")

    for second in range(150):
        said.disconnected(1, REFUSED, 1000.0 + second, was_preparing=True, unanswered=0)
    said.ready(1, 1150.0)
    said.ready(1, 1151.0)

    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3 + ["INFO"]
    assert (
        caplog.messages[0] == "me: the connection to node 1 (broker:9092) could not be established: Connection refused"
    )
    assert "(attempt 61 in 60 s; what only this broker can do waits" in caplog.messages[1]
    assert caplog.messages[3] == "me: node 1 is back after 150 s"


def test_each_broker_is_named_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    said = ConnectionLog("me")

    for node in (1, 2):
        said.disconnected(node, REFUSED, 1000.0, was_preparing=True, unanswered=0)

    assert len(caplog.records) == 2


def test_the_end_of_a_connection_is_news_where_something_was_asked_on_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.network")
    said = ConnectionLog("me")
    closed = Disconnection("the peer closed the connection", "broker:9092", was_connected=True)

    for unanswered in (0, 2):
        said.disconnected(1, closed, 1000.0, was_preparing=False, unanswered=unanswered)

    assert caplog.messages == [
        "me: node 1 (broker:9092) disconnected with 2 requests unanswered: the peer closed the connection"
    ]
