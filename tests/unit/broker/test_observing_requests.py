"""The request log and the metrics: what an operator sees of the requests."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.broker.metrics.http_server import answer
from barnabas.broker.request_log import RequestLog
from barnabas.protocol import messages
from barnabas.protocol.message import HIDDEN, Struct
from barnabas.protocol.messages.alter_configs_request import AlterConfigsRequest
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.metadata_request import MetadataRequest
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce


def every_struct() -> Iterator[type[Struct]]:
    """All messages of the protocol and their parts."""
    for module in pkgutil.iter_modules(messages.__path__):
        for each in vars(importlib.import_module(f"{messages.__name__}.{module.name}")).values():
            if isinstance(each, type) and issubclass(each, Struct):
                yield each


def set_level(client: CoreClient, level: str) -> None:
    config = AlterableConfig(name="kafka.request.logger", config_operation=0, value=level)
    resource = AlterConfigsResource(resource_type=8, resource_name="1", configs=[config])
    assert client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0


class LoggedBroker:
    """A broker whose request log is a list."""

    def __init__(self, every: int = 1):
        self.broker = CoreBroker()
        self._lines: list[str] = []
        self.broker.node.request_log = RequestLog(self._lines.append, every)
        self.client = self.broker.connect()

    def logged(self) -> list[dict[str, Any]]:
        lines, self._lines[:] = list(self._lines), []
        assert all(line.startswith("Completed request:") for line in lines)
        return [json.loads(line.partition(":")[2]) for line in lines]


class TestRequestLog:
    @pytest.mark.shows("S1.2", breaks="barnabas.broker.request_log:RequestLog.completed")
    @pytest.mark.shows("S1.3", breaks="barnabas.broker.request_log:RequestLog.completed")
    def test_it_shows_the_name_of_the_application_beside_its_address(self) -> None:
        logged = LoggedBroker()
        set_level(logged.client, "DEBUG")
        logged.logged()
        logged.client.request(MetadataRequest(topics=[]), 12, client_id="billing-service")
        line = logged.logged()[0]
        assert line["requestHeader"]["clientId"] == "billing-service"
        assert line["requestHeader"]["requestApiKeyName"] == "METADATA"
        assert line["requestHeader"]["requestApiVersion"] == 12
        assert line["connection"].startswith("10.0.0.1:")
        assert "request" not in line

    def test_nothing_is_logged_unless_it_is_wanted(self) -> None:
        logged = LoggedBroker()
        logged.client.request(MetadataRequest(topics=[]), 12)
        set_level(logged.client, "DEBUG")
        set_level(logged.client, "WARN")
        logged.logged()
        logged.client.request(MetadataRequest(topics=[]), 12)
        assert logged.logged() == []

    def test_trace_shows_what_was_said(self) -> None:
        logged = LoggedBroker()
        set_level(logged.client, "TRACE")
        logged.logged()
        logged.client.request(create("flights"), 7)
        line = logged.logged()[0]
        assert "flights" in line["request"]
        assert line["response"].startswith("CreateTopicsResponse")

    @pytest.mark.parametrize("field", sorted(HIDDEN))
    def test_no_message_shows_what_proves_an_identity(self, field: str) -> None:
        classes = [each for each in every_struct() if field in each.__slots__]
        assert classes
        for each in classes:
            struct = each.__new__(each)
            for name in each.__slots__:
                setattr(struct, name, b"s3cret" if name == field else None)
            struct.unknown_tagged_fields = None
            assert "s3cret" not in repr(struct)
            assert f"{field}=[hidden]" in repr(struct)

    @pytest.mark.parametrize("request_class", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
    @pytest.mark.parametrize("name", ["ssl.key.password", "listener.name.a.ssl.keystore.key", "settings.of.a.plugin"])
    def test_trace_shows_no_value_of_a_setting_that_is_secret_or_not_known(self, request_class: Any, name: str) -> None:
        module = importlib.import_module(request_class.__module__)
        logged = LoggedBroker()
        set_level(logged.client, "TRACE")
        logged.logged()
        configs = [
            module.AlterableConfig(name=name, value="s3cret"),
            module.AlterableConfig(name="log.cleaner.threads", value="2"),
        ]
        resource = module.AlterConfigsResource(resource_type=4, resource_name="1", configs=configs)
        message = request_class(resources=[resource])
        logged.client.request(message, 1)
        line = logged.logged()[0]
        assert name in line["request"]
        assert "value='2'" in line["request"]
        assert "s3cret" not in json.dumps(line)
        assert configs[0].value == "s3cret"

    @pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT"])
    def test_the_security_of_the_listener_is_shown(self, protocol: str) -> None:
        logged = LoggedBroker()
        set_level(logged.client, "DEBUG")
        logged.logged()
        logged.client.connection.info.security_protocol = protocol
        logged.client.request(MetadataRequest(topics=[]), 12)
        assert logged.logged()[0]["securityProtocol"] == protocol

    def test_a_request_that_waited_is_logged_when_it_is_answered_with_its_time(self) -> None:
        logged = LoggedBroker()
        logged.client.request(create("t"), 7)
        set_level(logged.client, "DEBUG")
        logged.logged()
        logged.client.request(fetch("t", max_wait_ms=500), 12)
        assert logged.logged() == []
        logged.broker.advance(0.6)
        assert logged.logged()[0]["totalTimeMs"] == pytest.approx(500)

    def test_a_sample(self) -> None:
        logged = LoggedBroker(every=10)
        set_level(logged.client, "DEBUG")
        for _ in range(100):
            logged.client.request(MetadataRequest(topics=[]), 12)
        assert len(logged.logged()) == 10

    def test_the_clients_software_is_shown(self) -> None:
        logged = LoggedBroker()
        logged.client.request(ApiVersionsRequest(client_software_name="my-lib", client_software_version="1.2"), 4)
        set_level(logged.client, "DEBUG")
        assert logged.logged()[-1]["clientInformation"] == {"softwareName": "my-lib", "softwareVersion": "1.2"}


class TestMetrics:
    def samples(self, client: CoreClient) -> dict[str, float]:
        found = {}
        for line in self.metrics.text().decode().splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found

    @pytest.fixture
    def observed(self, broker: CoreBroker) -> CoreClient:
        self.metrics = BrokerMetrics(broker.node, lambda: broker.instant, lambda: 0.0)
        broker.node.core.observers.append(self.metrics)
        return broker.connect()

    def test_records_and_bytes_of_topics(self, observed: CoreClient) -> None:
        observed.request(create("t", 2), 7)
        records = batch(b"a", b"b", b"c")
        for partition in (0, 1):
            observed.request(produce("t", records, partition), 12)
        observed.request(fetch("t"), 12)
        found = self.samples(observed)
        assert found['kafka_server_brokertopicmetrics_messagesin_total{topic="t"}'] == 6
        assert found['kafka_server_brokertopicmetrics_bytesin_total{topic="t"}'] == 2 * len(records)
        assert found['kafka_server_brokertopicmetrics_bytesout_total{topic="t"}'] == len(records)
        assert found['kafka_log_log_logendoffset{partition="1",topic="t"}'] == 3
        assert found['kafka_log_log_size{partition="0",topic="t"}'] == len(records)

    def test_requests_by_api_and_version_and_their_times(self, observed: CoreClient) -> None:
        clock = [0.0]

        def timer() -> float:
            clock[0] += 0.25
            return clock[0]

        observed.broker.node.core.timer = timer
        for version in (11, 12, 12):
            observed.request(MetadataRequest(topics=[]), version)
        found = self.samples(observed)
        assert found['kafka_network_requestmetrics_requests_total{request="Metadata",version="12"}'] == 2
        assert found['kafka_network_requestmetrics_requests_total{request="Metadata",version="11"}'] == 1
        assert found['kafka_network_requestmetrics_localtimems_count{request="Metadata"}'] == 3
        assert found['kafka_network_requestmetrics_localtimems_sum{request="Metadata"}'] == pytest.approx(750)
        assert found['kafka_network_requestmetrics_totaltimems_sum{request="Metadata"}'] == pytest.approx(750)

    def test_the_state_of_the_broker(self, observed: CoreClient) -> None:
        observed.request(create("t", 3), 7)
        observed.request(fetch("t", max_wait_ms=500), 12)
        found = self.samples(observed)
        assert found["kafka_server_replicamanager_partitioncount"] == 3
        assert found["kafka_controller_kafkacontroller_globaltopiccount"] == 1
        assert found["kafka_server_delayedoperationpurgatory_purgatorysize"] == 1
        assert found['kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}'] == 1
        assert found["process_resident_memory_bytes"] > 0


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1", b"200 OK", b"found"),
        (b"GET /metrics?x=1 HTTP/1.1", b"200 OK", b"found"),
        (b"HEAD /metrics HTTP/1.1", b"200 OK", b""),
        (b"GET / HTTP/1.1", b"404 Not Found", b"the metrics are at /metrics\n"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed", b"only GET is served\n"),
        (b"\xff\x00", b"405 Method Not Allowed", b"only GET is served\n"),
    ],
)
def test_answers_over_http(request_line: bytes, status: bytes, body: bytes) -> None:
    response = answer(request_line + b"\r\n\r\n", lambda: b"found", "text/plain")
    head, _, found = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert found == body
