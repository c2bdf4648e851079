"""JSON, Avro and Protobuf values as columns of a real Spark, and the dead letters on their way to a topic."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import Producer
from barnabas.spark.values.decoding import dead_letters, decode_avro, decode_json, decode_protobuf, decoded_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")

NewTopicName = Callable[[int], str]
SCHEMA = {"type": "record", "name": "Flight", "fields": [{"name": "delay", "type": "int"}]}


def frame(spark: SparkSession, servers: str, topic: str, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    return spark.read.format("barnabas").options(**given).load()


def send(servers: str, topic: str, values: list[bytes | None], **fields: Any) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value, **fields)


@pytest.fixture
def registry() -> Iterator[str]:
    """A registry that knows one schema, with the id 1."""

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in ("/schemas/ids/1", "/subjects/flights-value/versions/latest")
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": json.dumps(SCHEMA)} if known else {}).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_avro_of_a_registry_is_read_and_what_cannot_be_read_goes_to_a_topic_with_the_reason(
    spark: SparkSession, servers: str, new_topic: NewTopicName, registry: str
) -> None:
    topic, dead = new_topic(1), new_topic(1)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"delay": -4})
    values = [b"\0\0\0\0\1" + out.getvalue(), None, b"\0\0\0\0\x63" + out.getvalue()]
    send(servers, topic, values, key=b"k", headers=[("own", b"1")])
    rows = frame(spark, servers, topic, includeHeaders="true").withColumn(
        "decoded", decode_avro("value", registry=registry, subject="flights-value")
    )

    good = decoded_rows(rows).orderBy("offset").select("decoded.value").collect()
    options = {"kafka.bootstrap.servers": servers, "topic": dead}
    dead_letters(rows).write.format("barnabas").mode("append").options(**options).save()

    assert [row.value and row.value.delay for row in good] == [-4, None]
    (letter,) = frame(spark, servers, dead, includeHeaders="true").collect()
    assert (letter.key, letter.value) == (b"k", values[2])
    reason = f"KeyError: the Schema Registry {registry} does not know the schema id 99"
    headers = {header.key: bytes(header.value).decode() for header in letter.headers}
    assert headers == {
        "own": "1",
        "__connect.errors.topic": topic,
        "__connect.errors.partition": "0",
        "__connect.errors.offset": "2",
        "__connect.errors.exception.message": reason,
    }


@pytest.mark.parametrize("framed", [False, True])
def test_json_is_read_by_spark_itself_with_a_reason_for_what_is_none(spark: SparkSession, framed: bool) -> None:
    frame_bytes = b"\0\0\0\0\1" if framed else b""
    texts = [b'{"delay": 3, "carrier": "UA"}', b'{"delay": "late"}', b"{", b"", b'{"other": 1}']
    rows = spark.createDataFrame([(frame_bytes + text,) for text in texts] + [(None,), (b"x",)], "value binary")

    found = rows.withColumn("decoded", decode_json("value", "delay int, carrier string", framed=framed)).collect()

    decoded = [row.decoded for row in found]
    assert [tuple(each.value) if each.value else None for each in decoded] == [
        (3, "UA"), None, None, None, (None, None), None, None
    ]  # fmt: skip
    no_json = "no JSON of the type struct<delay:int,carrier:string>"
    no_frame = "no frame of the Schema Registry (0 and 4 bytes of schema id)"
    empty = no_frame if framed else "no JSON: it is empty"
    assert [each.error for each in decoded] == [
        None, no_json, no_json, empty, None, None, no_frame if framed else no_json
    ]  # fmt: skip


def test_protobuf_is_read_by_the_name_of_its_message(spark: SparkSession) -> None:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="f.proto", package="air", syntax="proto3")
    file.message_type.add(name="Flight").field.add(name="delay", number=1, type=5, label=1)
    descriptors = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    rows = spark.createDataFrame([(b"\0\0\0\0\1\0\x08\x07",), (b"\x08\x07",)], "value binary")

    decoded = decode_protobuf("value", "air.Flight", descriptors, framed=True)
    found = rows.select(decoded.alias("decoded")).collect()

    assert found[0].decoded.value.delay == 7
    assert found[1].decoded.error.startswith("ValueError: no frame")
