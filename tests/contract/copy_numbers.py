"""Copies `in` to `out` for ever, and dies of any error: `copy_numbers.py BOOTSTRAP NUMBER SEED [transactions]`.

In transactions, or with a commit after what was copied. Now and then it aborts, or dies before it commits. Whoever runs
it may kill it at any time.
"""

from __future__ import annotations

import os
import random
import sys
import traceback

from barnabas import Consumer, Producer
from barnabas.errors import KafkaError


def copy(bootstrap: str, number: str, source: random.Random, *, transactional: bool) -> None:
    settings = {"transactional_id": f"copy-{number}", "transaction_timeout_ms": 4000} if transactional else {}
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=0, **settings)
    if transactional:
        producer.init_transactions()
    consumer = Consumer(
        "in",
        bootstrap_servers=bootstrap,
        group_id="copy",
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=1500,
        heartbeat_interval_ms=200,
        max_poll_records=source.choice((20, 200, 1000)),
    )
    while True:
        records = consumer.poll(timeout=0.1)
        if not records:
            continue
        if transactional:
            producer.begin_transaction()
        for record in records:
            producer.send("out", value=record.value, key=record.key)
        if transactional:
            producer.send_offsets_to_transaction(records.next_offsets, consumer.group_metadata())
        else:
            producer.flush()
        if source.random() < 0.1:
            if transactional:
                producer.abort_transaction()
            # What it took goes to nobody else before this one is gone.
            raise KafkaError("given up on purpose")
        if transactional:
            producer.commit_transaction()
        else:
            consumer.commit()


if __name__ == "__main__":
    try:
        copy(sys.argv[1], sys.argv[2], random.Random(sys.argv[3]), transactional="transactions" in sys.argv[4:])
    except KafkaError:
        traceback.print_exc()
        sys.stderr.flush()
        # Without a goodbye: no close, no leaving the group.
        os._exit(1)
