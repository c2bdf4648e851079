"""Settings that are changed through a member: loggers here, all else by the controller, in one request as well."""

from __future__ import annotations

import pytest

from barnabas.broker.loggers import REQUEST_LOGGER
from barnabas.protocol.framing import decode_request, encode_response
from barnabas.protocol.kinds import ConfigResourceType as Kind
from barnabas.protocol.messages.envelope_response import EnvelopeResponse
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from tests.support.cluster_member import ME, MemberBroker, broker

INVALID_REQUEST, TIMED_OUT = 42, 7


def change(kind: Kind, resource: str, name: str, value: str) -> AlterConfigsResource:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    return AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[config])


@pytest.fixture
def member() -> MemberBroker:
    found = MemberBroker({}, *broker(1))
    found.unfence()
    return found


TOPIC = change(Kind.TOPIC, "t", "retention.ms", "1")
LOGGER = change(Kind.BROKER_LOGGER, str(ME), REQUEST_LOGGER, "TRACE")
OTHER_TOPIC = change(Kind.TOPIC, "u", "retention.ms", "1")


def test_loggers_are_changed_here_and_the_rest_by_the_controller_and_there_is_one_answer(member: MemberBroker) -> None:
    client = member.connect()
    request = IncrementalAlterConfigsRequest(resources=[TOPIC, LOGGER, OTHER_TOPIC])
    assert client.request(request, 1) is None
    header, asked = decode_request(member.asked("forwarding").request_data)
    assert [one.resource_name for one in asked.resources] == ["t", "u"]  # type: ignore[attr-defined]
    results = [
        AlterConfigsResourceResponse(error_code=code, resource_type=Kind.TOPIC, resource_name=name)
        for code, name in ((0, "t"), (3, "u"))
    ]
    data = b"".join(encode_response(IncrementalAlterConfigsResponse(responses=results), 1, header.correlation_id))[4:]
    member.channel("forwarding").requester.receive(EnvelopeResponse(response_data=data), member.instant)
    found = client.responses[-1].responses  # type: ignore[attr-defined]
    assert [(one.resource_type, one.resource_name, one.error_code) for one in found] == [
        (Kind.TOPIC, "t", 0),
        (Kind.BROKER_LOGGER, str(ME), 0),
        (Kind.TOPIC, "u", 3),
    ]
    assert member.state.loggers.levels()[REQUEST_LOGGER] == "TRACE"


def test_where_no_controller_answers_what_was_done_here_is_told(member: MemberBroker) -> None:
    client = member.connect()
    client.request(IncrementalAlterConfigsRequest(resources=[TOPIC, LOGGER]), 1)
    member.asked("forwarding")
    member.now += 31
    member.channel("forwarding").requester.disconnected(member.now)
    member.channel("forwarding").requester.next_request(member.now)
    found = client.responses[-1].responses  # type: ignore[attr-defined]
    assert [(one.resource_name, one.error_code) for one in found] == [("t", TIMED_OUT), (str(ME), 0)]


def test_too_many_loggers_beside_others_are_refused_before_anything_is_done(member: MemberBroker) -> None:
    resources = [TOPIC, *(change(Kind.BROKER_LOGGER, str(number), REQUEST_LOGGER, "TRACE") for number in range(200))]
    found = member.connect().request(IncrementalAlterConfigsRequest(resources=resources), 1).responses
    assert {one.error_code for one in found} == {INVALID_REQUEST}
    assert member.state.loggers.levels()[REQUEST_LOGGER] != "TRACE"
