"""What one small request costs the broker: CPU per produce of one record, and its round trip.

One connection, acks=all, one 100-byte record per request, one request at a time; then eight requests ahead.
Also the cost per record of large batches. Run: ./run bench broker_small_requests [--seconds S]
"""

from __future__ import annotations

import socket
import time

from barnabas import Broker
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records import RecordBatchBuilder
from benchmarks._options import options
from benchmarks._race import cpu_seconds


def produce_request(records: int) -> bytes:
    """Return a Produce of one batch of 100-byte records."""
    builder = RecordBatchBuilder(16 << 20)
    for _ in range(records):
        builder.try_append(int(time.time() * 1000), None, b"x" * 100, [])
    data = PartitionProduceData(index=0, records=bytes(builder.close()))
    topic = TopicProduceData(name="bench", partition_data=[data])
    return encode_request(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 12, 1, "bench")


def read_response(connection: socket.socket) -> None:
    """Take one response off the connection."""
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    connection.recv(size, socket.MSG_WAITALL)


def run(
    connection: socket.socket, pid: int, request: bytes, ahead: int, seconds: float
) -> tuple[int, float, list[float]]:
    """Return requests answered, the broker's CPU seconds, and the round trips."""
    trips = []
    count = 0
    before = cpu_seconds(pid)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        connection.sendall(request * ahead)
        for _ in range(ahead):
            read_response(connection)
        trips.append(time.perf_counter() - start)
        count += ahead
    return count, cpu_seconds(pid) - before, sorted(trips)


def main() -> None:
    """Measure and print."""
    given = options(__doc__, seconds=3.0)
    with Broker() as broker, socket.create_connection(("127.0.0.1", broker.port)) as connection:
        assert broker.pid is not None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        create = CreateTopicsRequest(topics=[CreatableTopic(name="bench", num_partitions=1, replication_factor=1)])
        connection.sendall(encode_request(create, 7, 1, "bench"))
        read_response(connection)
        for label, records, ahead in (
            ("one at a time", 1, 1),
            ("eight ahead", 1, 8),
            ("10,000 records each", 10_000, 1),
        ):
            request = produce_request(records)
            run(connection, broker.pid, request, ahead, 0.3)
            count, cpu, trips = run(connection, broker.pid, request, ahead, given.seconds)
            print(
                f"{label}: {count / given.seconds:.0f} requests/s, broker CPU {cpu / count * 1e3:.3f} ms per request"
                f" ({cpu / count / records * 1e6:.2f} µs per record),"
                f" round trip p50 {trips[len(trips) // 2] * 1e3:.3f} ms,"
                f" p99 {trips[int(len(trips) * 0.99)] * 1e3:.3f} ms"
            )


if __name__ == "__main__":
    main()
