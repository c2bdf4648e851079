"""Traffic that does not come about ends with its threads, so that the tests that follow can go on."""

from __future__ import annotations

import threading

import pytest

from tests.contract.traffic import Traffic


def test_traffic_without_a_broker_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: object) -> None:
        raise AssertionError("0 of 1 were read")

    monkeypatch.setattr(Traffic, "wait_until_read", wait)
    before = set(threading.enumerate())

    with (
        pytest.raises(AssertionError, match="0 of 1"),
        Traffic({"bootstrap.servers": "127.0.0.1:1"}),
    ):
        pytest.fail("nothing was read")

    assert {thread for thread in threading.enumerate() if thread.is_alive()} <= before
