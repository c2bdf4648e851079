"""A consumer belongs to the process that made it."""

from __future__ import annotations

from barnabas import Broker, Consumer, Producer
from tests.unit.forking import refused_in_a_child, where_it_can_fork


@where_it_can_fork
def test_a_forked_child_is_refused_and_does_not_disturb_the_parent() -> None:
    with Broker(num_partitions=1) as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"before").result()
        settings = {"group_id": "g", "auto_offset_reset": "earliest", "bootstrap_servers": broker.bootstrap_servers}
        with Consumer("t", **settings) as consumer:
            while not (found := consumer.poll(1.0)):
                pass
            assert [record.value for record in found] == [b"before"]

            (said,) = refused_in_a_child(lambda: consumer.poll(0.1), then=consumer.close)
            assert "before the process forked" in said

            producer.send("t", b"after").result()
            while not (found := consumer.poll(1.0)):
                pass
            assert [record.value for record in found] == [b"after"]
            consumer.commit()
