"""The admin client for asyncio, with a broker in memory on virtual time."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import barnabas
from barnabas import errors
from barnabas.aio import AdminClient, NewTopic
from tests.support.virtual_loop import VirtualBroker, VirtualEnvironment, run
from tests.unit.aio.test_producer import forget


def connect(broker: VirtualBroker, **settings: Any) -> AdminClient:
    return AdminClient(bootstrap_servers="broker:9092", environment=VirtualEnvironment(broker), **settings)


def public(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls, callable) if not name.startswith("_")}


def test_it_has_every_operation_of_the_client_for_threads() -> None:
    assert public(AdminClient) == public(barnabas.AdminClient)
    plain = {name for name in public(AdminClient) if not inspect.iscoroutinefunction(getattr(AdminClient, name))}
    assert plain == {
        "metric_groups", "metrics", "node_metrics",
        "register_metric_for_subscription", "unregister_metric_from_subscription",
    }  # fmt: skip


def test_operations_are_awaited() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        async with connect(broker) as admin:
            created = await admin.create_topics([NewTopic("flights", num_partitions=3)])
            assert created["flights"].num_partitions == 3
            assert list(await admin.list_topics()) == ["flights"]
            assert await admin.list_groups() == {}
            with pytest.raises(errors.TopicExistsError):
                await admin.create_topics([NewTopic("flights")])

    run(scenario)


def test_operations_of_many_tasks_go_on_side_by_side() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        names = [f"topic-{number}" for number in range(20)]
        loop = asyncio.get_running_loop()
        async with connect(broker) as admin:
            await admin.describe_cluster()
            began = loop.time()
            await asyncio.gather(*(admin.create_topics([NewTopic(name)]) for name in names))
            assert loop.time() - began < 1, "nobody waited for a timer"
            assert list(await admin.list_topics()) == sorted(names)

    run(scenario)


def test_an_operation_fails_after_its_timeout_and_can_be_cancelled() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        async with connect(broker) as admin:
            await admin.describe_cluster()
            broker.is_silent = True
            with pytest.raises(errors.KafkaTimeoutError):
                await admin.describe_cluster(timeout=3)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(admin.describe_cluster(), 2)
            broker.is_silent = False
            broker.drop_connections()
            assert (await admin.describe_cluster()).nodes

    run(scenario)


def test_closing_ends_operations_in_progress() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        admin = connect(broker)
        await admin.describe_cluster()
        broker.is_silent = True
        asking = asyncio.get_running_loop().create_task(admin.describe_cluster())
        await asyncio.sleep(0.1)
        await admin.close()
        await admin.close()
        with pytest.raises(errors.IllegalStateError):
            await asking
        with pytest.raises(errors.IllegalStateError, match="closed"):
            await admin.list_topics()

    run(scenario)


def test_a_forgotten_client_warns() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        made = [connect(broker)]
        await made[0].describe_cluster()
        with pytest.warns(ResourceWarning, match="never closed"):
            forget(made)
        await asyncio.sleep(1)
        assert not broker.links

    run(scenario)
