"""The clients for asyncio against a running broker: tests of the clients for threads, and what only asyncio has.

The tests that are imported here run again, with the fixtures of this file.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from barnabas import aio
from tests.contract import group as groups
from tests.contract.asyncio_adapter import Blocking
from tests.contract.test_admin import (  # noqa: F401  collected here
    test_a_topic_is_described_by_name_and_by_id,
    test_what_cannot_be_created_says_why_and_the_rest_is_created,
)
from tests.contract.test_consumer_groups import (  # noqa: F401  collected here
    test_a_cooperative_rebalance_takes_only_what_moves,
    test_no_record_is_lost_or_doubled_through_rebalances,
)
from tests.contract.test_consumer_reading import (  # noqa: F401  collected here
    test_a_commit_inside_the_loop_covers_what_was_handed_out,
    test_a_record_that_cannot_be_deserialized_is_told_after_all_before_it_and_can_be_passed,
    test_arrow_has_all_records_in_the_columns_of_spark,
    test_paused_partitions_deliver_nothing_until_resumed,
    test_seek_goes_anywhere,
    test_tells_bounds_times_and_lag,
    test_wakeup_from_another_thread_ends_a_poll_in_progress_and_else_the_next,
)
from tests.contract.test_producer_transactions import (  # noqa: F401  collected here
    test_offsets_count_if_and_only_if_their_transaction_is_committed,
    test_readers_see_each_committed_record_once_and_no_aborted_one,
    test_the_context_commits_at_its_end_and_aborts_after_an_error,
)
from tests.contract.waiting import create_topic

NewName = Callable[[str], str]


@pytest.fixture
def topic(bootstrap_servers: str, new_name: NewName) -> str:
    return create_topic(bootstrap_servers, new_name("aio"), 2)


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[Any]:
    with Blocking(aio.AdminClient, bootstrap_servers=bootstrap_servers) as client:
        yield client


@pytest.fixture
def make(bootstrap_servers: str) -> Iterator[Callable[..., Any]]:
    made: list[Blocking] = []

    def make_consumer(*topics: str, **settings: Any) -> Any:
        made.append(Blocking(aio.Consumer, *topics, bootstrap_servers=bootstrap_servers, **settings))
        return made[-1]

    yield make_consumer
    for consumer in made:
        consumer.close()


@pytest.fixture(autouse=True)
def members_are_for_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "Consumer", partial(Blocking, aio.Consumer))


@pytest.fixture
def producer(bootstrap_servers: str, new_name: NewName) -> Iterator[Any]:
    with Blocking(aio.Producer, bootstrap_servers=bootstrap_servers, transactional_id=new_name("id")) as made:
        made.init_transactions()
        yield made


async def copy(bootstrap_servers: str, topic: str, count: int) -> None:
    """Send and read at the same time, in one loop."""
    async with (
        aio.Producer(bootstrap_servers=bootstrap_servers) as producer,
        aio.Consumer(
            topic, group_id=topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer,
    ):

        async def send() -> None:
            for number in range(count):
                await producer.send(topic, b"%d" % number)

        sending = asyncio.get_running_loop().create_task(send())
        seen: list[bytes | None] = []
        async with asyncio.timeout(60):
            async for record in consumer:
                seen.append(record.value)
                if len(seen) == count:
                    break
        await sending
        assert sorted(int(value or b"") for value in seen) == list(range(count))


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    if kind == "asyncio":
        return asyncio.new_event_loop()
    uvloop = pytest.importorskip("uvloop")
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_clients_work_side_by_side_in_one_loop_and_leave_nothing_behind(
    bootstrap_servers: str, topic: str, kind: str
) -> None:
    before = threading.active_count()

    async def many() -> None:
        await copy(bootstrap_servers, topic, 5000)
        assert threading.active_count() <= before, "no client has a thread"

    with asyncio.Runner(debug=kind == "asyncio", loop_factory=partial(new_loop, kind)) as runner:
        runner.run(many())


def test_two_loops_in_two_threads_each_with_its_clients(bootstrap_servers: str, topic: str, new_name: NewName) -> None:
    other = new_name("other")
    failures: list[BaseException] = []

    def run(name: str) -> None:
        try:
            asyncio.run(copy(bootstrap_servers, name, 2000))
        except BaseException as failure:  # noqa: BLE001  told to the test's own thread
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(name,)) for name in (topic, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_an_idle_client_costs_no_turns_of_its_loop(bootstrap_servers: str, topic: str) -> None:
    turns = 0

    def profile(frame: Any, event: str, _: object) -> None:
        nonlocal turns
        turns += event == "call" and frame.f_code.co_name == "_run_once"

    async def idle() -> None:
        async with (
            aio.Producer(bootstrap_servers=bootstrap_servers) as producer,
            aio.Consumer(topic, group_id=topic, bootstrap_servers=bootstrap_servers) as consumer,
        ):
            await (await producer.send(topic, b"x", partition=0))
            while not consumer.assignment():
                await consumer.poll(0.1)
            await consumer.poll(1.0)
            sys.setprofile(profile)
            await consumer.poll(2.0)
            sys.setprofile(None)

    asyncio.run(idle())
    assert turns < 60
