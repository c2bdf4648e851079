"""`barnabas decode`, as a program sees it."""

from __future__ import annotations

import argparse
import io
import json

import pytest

from barnabas.cli import decode
from barnabas.protocol.framing import encode_request, encode_response
from barnabas.protocol.messages.fetch_response import FetchResponse
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.offset_commit_value import OffsetCommitValue


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    decode.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["decode", *arguments])
    return int(parsed.run(parsed))


def shown(capsys: pytest.CaptureFixture[str]) -> object:
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)


def test_a_response_is_shown_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    body = FetchResponse(throttle_time_ms=5).encode(17).hex()

    assert run("--api", "Fetch", "--version", "17", "--response", body) == 0
    assert shown(capsys) == {"throttleTimeMs": 5, "errorCode": 0, "sessionId": 0, "responses": []}


@pytest.mark.parametrize("api", ["Heartbeat", "HeartbeatRequest", "12"])
def test_an_api_may_be_named_in_three_ways(api: str, capsys: pytest.CaptureFixture[str]) -> None:
    body = HeartbeatRequest("g", 1, "m").encode(0).hex()

    assert run("--api", api, "--version", "0", "--request", body) == 0
    assert shown(capsys) == {"groupId": "g", "generationId": 1, "memberId": "m"}


def test_any_message_can_be_named_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    body = OffsetCommitValue(offset=7, metadata="é").encode(3).hex()

    assert run("--api", "OffsetCommitValue", "--version", "3", "--message", body) == 0
    assert shown(capsys) == {"offset": 7, "leaderEpoch": -1, "metadata": "é", "commitTimestamp": 0}


def test_a_framed_request_says_itself_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    frame = encode_request(HeartbeatRequest("g", 1, "m"), 4, 9, "me").hex()

    assert run("--framed", "--request", frame) == 0
    header = {"requestApiKey": 12, "requestApiVersion": 4, "correlationId": 9, "clientId": "me"}
    message = {"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": None}
    assert shown(capsys) == {"header": header, "message": message}


def test_a_framed_response_shows_its_correlation_id(capsys: pytest.CaptureFixture[str]) -> None:
    frame = b"".join(encode_response(FetchResponse(), 17, 9)).hex()

    assert run("--api", "Fetch", "--version", "17", "--framed", "--response", frame) == 0
    assert capsys.readouterr().out.startswith('{\n  "header": {\n    "correlationId": 9\n  },')


def test_hex_digits_come_from_standard_input_for_a_dash(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("0x00 00000 0 0000\n00000000 01 00\n".replace(" 0 ", "0")))

    assert run("--api", "Fetch", "--version", "17", "--response", "-") == 0
    assert shown(capsys) == {"throttleTimeMs": 0, "errorCode": 0, "sessionId": 0, "responses": []}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--api", "Fetch", "--version", "17", "--response", "00"], "FetchResponse.throttle_time_ms at byte 0"),
        (["--api", "Fetch", "--version", "99", "--response", "00"], "99 was asked for"),
        (["--api", "Fetsch", "--version", "1", "--response", "00"], "There is no message named 'FetschResponse'"),
        (["--api", "Fetch", "--version", "17", "--response", "0g"], "not hexadecimal digits"),
        (["--framed", "--request", "00000005 00"], "The size in front of the frame does not fit"),
    ],
)
def test_bad_bytes_fail_with_1_and_say_why_on_stderr(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api", "Fetch", "--response", "00"],
        ["--version", "1", "--response", "00"],
        ["--api", "OffsetCommitValue", "--version", "1", "--message", "00", "--framed"],
    ],
)
def test_arguments_that_do_not_fit_together_are_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().err.startswith("barnabas decode: ")
