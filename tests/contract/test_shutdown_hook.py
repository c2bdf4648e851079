"""A program that ends its consumer from a shutdown hook: a signal handler that calls `wakeup()`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from barnabas import AdminClient, NewTopic, Producer
from tests.contract.waiting import eventually

PROGRAM = """
import signal, sys
from barnabas import Consumer
from barnabas.errors import WakeupError

consumer = Consumer(
    sys.argv[2], bootstrap_servers=sys.argv[1], group_id=sys.argv[3], auto_offset_reset="earliest",
    enable_auto_commit=False,
)
signal.signal(signal.SIGTERM, lambda number, frame: consumer.wakeup())
try:
    while True:
        for record in consumer.poll(60):
            print(record.value.decode(), flush=True)
            consumer.commit()
except WakeupError:
    print("woken", flush=True)
finally:
    consumer.close()
    print("closed", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM handlers")
@pytest.mark.shows("S3.98", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.wakeup")
def test_wakeup_in_a_shutdown_hook_ends_the_loop_and_the_group_is_left_at_once(
    bootstrap_servers: str, new_name: Callable[[str], str]
) -> None:
    topic, group = new_name("topic"), new_name("group")
    with AdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
        with Producer(bootstrap_servers=bootstrap_servers) as producer:
            producer.send(topic, b"one").result()
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, bootstrap_servers, topic, group],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        assert program.stdout is not None
        assert program.stdout.readline() == "one\n"
        eventually(lambda: admin.list_consumer_group_offsets(group))  # it is on its way to poll(60), or there
        started = time.monotonic()
        program.send_signal(signal.SIGTERM)
        try:
            rest, _ = program.communicate(timeout=20)
        finally:
            program.kill()
            program.wait()

        assert (rest.splitlines(), program.returncode) == (["woken", "closed"], 0)
        assert time.monotonic() - started < 40, "its session would have lasted 45 s"
        assert not admin.describe_groups([group])[group].members
        assert next(iter(admin.list_consumer_group_offsets(group).values())).offset == 1
