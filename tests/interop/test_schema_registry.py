"""Records with a schema id in front, exchanged with confluent-kafka through a schema registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from barnabas import Broker, Consumer, Producer, TopicPartition
from barnabas.errors import RecordDeserializationError, SerializationError
from tests.support.schema_registry import SchemaRegistry

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}],
}
JSON_FLIGHT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Flight",
    "type": "object",
    "properties": {"carrier": {"type": "string"}, "delay": {"type": "integer"}},
    "required": ["carrier"],
}
VALUE = {"carrier": "UA", "delay": 11}


def flight_message() -> Any:
    """A Protobuf message class, made without protoc."""
    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="test.flights", syntax="proto3")
    message = file.message_type.add(name="Flight")
    message.field.add(name="carrier", number=1, type=9, label=1)
    message.field.add(name="delay", number=2, type=5, label=1)
    pool = descriptor_pool.Default()
    pool.Add(file)  # type: ignore[attr-defined]  # not in the stubs
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.flights.Flight"))


FlightMessage = flight_message()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def formats(url: str, settings: dict[str, Any] | None = None) -> dict[str, tuple[Any, Any, Any]]:
    """By name: serializer, with these settings, deserializer and a value."""
    client = SchemaRegistryClient({"url": url})
    no_deprecated = {"use.deprecated.format": False}
    conf: dict[str, Any] = settings or {}
    return {
        "avro": (AvroSerializer(client, json.dumps(FLIGHT), conf=conf), AvroDeserializer(client), VALUE),
        "json": (
            JSONSerializer(json.dumps(JSON_FLIGHT), client, conf=conf),
            JSONDeserializer(json.dumps(JSON_FLIGHT)),
            VALUE,
        ),
        "protobuf": (
            ProtobufSerializer(FlightMessage, client, no_deprecated | conf),
            ProtobufDeserializer(FlightMessage, no_deprecated, client),
            FlightMessage(**VALUE),
        ),
    }


def read_all(broker: Broker, topic: str, count: int, **settings: Any) -> list[Any]:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        records: list[Any] = []
        while len(records) < count:
            polled = consumer.poll(10.0)
            assert polled, "nothing came"
            records += polled
        return records


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_what_barnabas_writes_confluents_consumer_reads_and_the_other_way_round(
    broker: Broker, registry: SchemaRegistry, name: str
) -> None:
    serializer, deserializer, value = formats(registry.url)[name]
    servers, topic = broker.bootstrap_servers, f"registry-{name}"

    with Producer(bootstrap_servers=servers, value_serializer=serializer) as producer:
        producer.send(topic, value).result(10)
        producer.send(topic, None).result(10)
    theirs = confluent_kafka.Producer({"bootstrap.servers": servers})
    context = SerializationContext(topic, MessageField.VALUE)
    theirs.produce(topic, serializer(value, context), partition=0)
    theirs.flush(10)

    ours = read_all(broker, topic, 3, value_deserializer=deserializer)
    raw = read_all(broker, topic, 3)

    assert [record.value for record in ours] == [value, None, value]
    assert raw[0].value == raw[2].value
    assert raw[0].value[:5] == b"\0\0\0\0\1"
    assert deserializer(raw[0].value, context) == value
    assert list(registry.subjects) == [f"{topic}-value"]


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_the_ids_of_schemas_may_stand_in_headers(broker: Broker, registry: SchemaRegistry, name: str) -> None:
    in_headers = formats(registry.url, {"schema.id.serializer": header_schema_id_serializer})
    key_serializer, serializer = in_headers["avro"][0], in_headers[name][0]
    readers = formats(registry.url)
    key_deserializer, deserializer = readers["avro"][1], readers[name][1]
    # Confluent's Avro deserializer takes nothing shorter than an id and a byte, wherever the id is.
    key = VALUE | {"carrier": "United Airlines"}
    value = FlightMessage(**key) if name == "protobuf" else key
    topic = f"registry-headers-{name}"
    servers = broker.bootstrap_servers

    with Producer(bootstrap_servers=servers, key_serializer=key_serializer, value_serializer=serializer) as producer:
        producer.send(topic, value, key, headers=[("of the application", b"1")]).result(10)
    (record,) = read_all(broker, topic, 1, key_deserializer=key_deserializer, value_deserializer=deserializer)
    (raw,) = read_all(broker, topic, 1)

    assert (record.key, record.value) == (key, value)
    assert [header for header, _ in raw.headers] == ["of the application", "__key_schema_id", "__value_schema_id"]
    context = SerializationContext(topic, MessageField.VALUE, raw.headers)
    assert deserializer(raw.value, context) == value
    if name != "json":  # whose deserializer here has its schema given
        assert any("/schemas/guids/" in request for request in registry.requests)


def test_keys_have_a_subject_of_their_own(broker: Broker, registry: SchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    with Producer(
        bootstrap_servers=broker.bootstrap_servers,
        key_serializer=AvroSerializer(client, '"string"'),
        value_serializer=AvroSerializer(client, json.dumps(FLIGHT)),
    ) as producer:
        producer.send("registry-keys", VALUE, key="EWR").result(10)

    (record,) = read_all(
        broker,
        "registry-keys",
        1,
        key_deserializer=AvroDeserializer(client),
        value_deserializer=AvroDeserializer(client),
    )
    assert (record.key, record.value) == ("EWR", VALUE)
    assert sorted(registry.subjects) == ["registry-keys-key", "registry-keys-value"]


def test_a_value_that_does_not_fit_is_refused_before_it_is_sent(broker: Broker, registry: SchemaRegistry) -> None:
    serializer, _, _ = formats(registry.url)["avro"]
    with (
        Producer(bootstrap_servers=broker.bootstrap_servers, value_serializer=serializer) as producer,
        pytest.raises(SerializationError, match=r"value_serializer AvroSerializer.*registry-bad"),
    ):
        producer.send("registry-bad", {"carrier": 3}).result(10)


def test_a_record_that_cannot_be_read_says_where_it_is_and_can_be_passed(
    broker: Broker, registry: SchemaRegistry
) -> None:
    serializer, deserializer, _ = formats(registry.url)["avro"]
    topic = "registry-poison"
    with Producer(bootstrap_servers=broker.bootstrap_servers) as plain:
        good = serializer(VALUE, SerializationContext(topic, MessageField.VALUE))
        for value in (good, b"\0\0\0\0\x63unknown", b"no schema id", good):
            plain.send(topic, value).result(10)

    partition = TopicPartition(topic, 0)
    seen: list[Any] = []
    bad: list[tuple[TopicPartition, int]] = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, value_deserializer=deserializer, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([partition])
        while len(seen) + len(bad) < 4:
            try:
                seen += [record.value for record in consumer.poll(10.0)]
            except RecordDeserializationError as error:
                bad.append((error.topic_partition, error.offset))
                consumer.seek(error.topic_partition, error.offset + 1)

    assert seen == [VALUE, VALUE]
    assert bad == [(partition, 1), (partition, 2)]
