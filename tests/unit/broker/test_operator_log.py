"""What the operator reads: each line with its time, level, broker and logger, from the level on that was asked for."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from threading import get_ident

import pytest

from barnabas.broker import operator_log
from barnabas.broker.loggers import Loggers
from barnabas.protocol.messages.metadata_request import MetadataRequest
from tests.support.core_broker import CoreBroker


@pytest.fixture(autouse=True)
def _root_as_it_was() -> Iterator[None]:
    # Commands that ran in this process leave a handler on a stream closed since, and keep records from the root.
    loggers = [logging.getLogger(), logging.getLogger("barnabas"), *_loggers().values()]
    before = [(one, one.level, list(one.handlers), one.propagate) for one in loggers]
    for one in loggers:
        one.handlers[:] = []
        one.propagate = True
    for one in loggers[1:]:
        one.setLevel(logging.NOTSET)
    yield
    for one in _loggers().values():
        one.setLevel(logging.NOTSET)
    for one, level, handlers, propagate in before:
        one.setLevel(level)
        one.handlers[:] = handlers
        one.propagate = propagate


def _loggers() -> dict[str, logging.Logger]:
    found = logging.root.manager.loggerDict
    return {name: one for name, one in found.items() if isinstance(one, logging.Logger) and name.startswith("barnabas")}


def start(form: str, level: str) -> tuple[operator_log.OperatorLog, Callable[[], list[str]]]:
    """Start the log; the second of the pair gives the lines since its last call.

    Other tests leave threads that log or print (py4j's, for one): only records of this thread count, on a stream
    that nothing else writes to.
    """
    log = operator_log.start(form, level)
    assert log.stream is sys.stderr
    mine = get_ident()
    log.addFilter(lambda record: record.thread == mine)
    log.setStream(io.StringIO())

    def said() -> list[str]:
        written = log.setStream(io.StringIO())
        return written.getvalue().splitlines()

    return log, said


def test_a_line_has_time_level_broker_message_and_logger() -> None:
    log, said = start("text", "INFO")
    log.name_broker(7)

    operator_log.warn("the disk is full: 100 %")

    (line,) = said()
    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] WARN \[Broker id=7\] the disk is full: 100 % \(barnabas\.broker\)",
        line,
    )
    operator_log.stop(log)


def test_json_has_the_same_in_fields_and_the_trace_too() -> None:
    log, said = start("json", "INFO")
    log.name_broker(7)

    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("barnabas.broker.log").exception("a segment is damaged")

    (line,) = said()
    found = json.loads(line)
    assert {name: found[name] for name in ("level", "brokerId", "logger", "message")} == {
        "level": "ERROR",
        "brokerId": 7,
        "logger": "barnabas.broker.log",
        "message": "a segment is damaged",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["timestamp"])
    assert "ValueError: two\nlines" in found["stackTrace"]
    operator_log.stop(log)


def test_lines_wait_for_the_brokers_id_and_none_is_lost_without_one() -> None:
    log, said = start("text", "INFO")
    operator_log.warn("first")
    assert said() == []
    log.name_broker(3)
    assert "[Broker id=3] first" in said()[0]
    operator_log.stop(log)

    log, said = start("text", "INFO")
    operator_log.warn("no broker came of it")
    operator_log.stop(log)
    assert "WARN no broker came of it" in said()[0]


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
def test_each_level_lets_through_what_is_not_below_it(level: str) -> None:
    log, said = start("text", level)
    log.name_broker(1)
    levels = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}

    for number in levels.values():
        logging.getLogger("barnabas.broker.log").log(number, "said")

    assert [line.split("] ")[1].split()[0] for line in said()] == [
        name for name, number in levels.items() if number >= levels[level]
    ]
    operator_log.stop(log)


def test_a_level_that_is_set_while_the_broker_runs_acts_at_once() -> None:
    log, said = start("text", "INFO")
    log.name_broker(1)
    loggers = Loggers(lambda level: None)
    logger = logging.getLogger("barnabas.broker.log")

    logger.debug("one")
    loggers.check(logger.name, "DEBUG")
    loggers.set(logger.name, "DEBUG")
    logger.debug("two")
    loggers.set("root", "ERROR")
    logging.getLogger("barnabas.broker.groups").warning("three")
    loggers.set(logger.name, None)
    logger.warning("four")

    assert [line.partition("id=1] ")[2].split()[0] for line in said()] == ["two"]
    assert loggers.levels()["barnabas.broker.groups"] == "ERROR"
    operator_log.stop(log)


def test_a_fault_of_the_broker_is_an_error_and_what_a_client_sent_a_warning() -> None:
    log, said = start("text", "INFO")
    broker = CoreBroker()
    broker.node.core.channel.report = operator_log.report
    broker.node.core.warn = broker.node.core.channel._refusals._warn = operator_log.warn
    log.name_broker(1)

    broker.connect().send_bytes(b"\x7f\xff\xff\xff")
    assert [line.split()[2] for line in said()] == ["WARN"]

    del broker.state.metadata
    broker.connect().send(MetadataRequest(topics=[]), 12)
    (first, *_) = said()
    assert first.split()[2] == "ERROR"
    assert "the broker failed at Metadata" in first
    assert "please report this" in first
    operator_log.stop(log)
