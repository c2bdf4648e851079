"""A broker, a topic, a record there and back: what an installed barnabas must do wherever it is. Run as a program."""

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer

with Broker() as broker:
    servers = broker.bootstrap_servers
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("t", num_partitions=2)])
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"value", key=b"key")
    with Consumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        found: list[tuple[object, object]] = []
        while not found:
            found = [(record.key, record.value) for record in consumer.poll(timeout=1.0)]
if found != [(b"key", b"value")]:
    raise SystemExit(f"the record came back as {found}")
