"""Clients between tasks: shared by none, and closed when the query that used them has long ended."""

from __future__ import annotations

import pytest

from barnabas.errors import KafkaError
from barnabas.spark.client_cache import ClientCache


class Client:
    def __init__(self, problem: KafkaError | None = None) -> None:
        self.closed = False
        self.problem = problem

    def close(self) -> None:
        self.closed = True
        if self.problem is not None:
            raise self.problem


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def test_a_client_in_use_is_nobody_elses(time: Time) -> None:
    cache: ClientCache[Client] = ClientCache(clock=time)
    first = cache.acquire("settings", Client)
    second = cache.acquire("settings", Client)
    assert first is not second
    cache.release("settings", first)
    assert cache.acquire("settings", Client) is first


def test_clients_of_ended_queries_are_closed_when_others_come_back(time: Time) -> None:
    cache: ClientCache[Client] = ClientCache(longest_idle=600.0, clock=time)
    ended, living = Client(), Client()
    cache.release("ended", ended)
    for _ in range(7):
        time.now += 100
        cache.release("living", cache.acquire("living", lambda: living))
    assert (ended.closed, living.closed) == (True, False)
    assert cache.acquire("ended", Client) is not ended


def test_the_one_unused_for_longest_goes_when_there_are_too_many(time: Time) -> None:
    cache: ClientCache[Client] = ClientCache(most_idle=2, clock=time)
    clients = [Client() for _ in range(3)]
    for number, client in enumerate(clients):
        cache.release(number, client)
    assert [client.closed for client in clients] == [True, False, False]


def test_an_old_client_that_cannot_be_closed_harms_no_task(time: Time) -> None:
    cache: ClientCache[Client] = ClientCache(most_idle=1, clock=time)
    broken = Client(KafkaError("the mark could not be written"))
    cache.release("old", broken)
    cache.release("new", Client())
    assert broken.closed


def test_a_client_that_is_not_wanted_any_more_is_closed_at_once_and_others_stay() -> None:
    cache: ClientCache[Client] = ClientCache()
    ended, other = Client(KafkaError("the broker is gone")), Client()
    cache.release("ended", ended)
    cache.release("other", other)

    cache.discard("ended")
    cache.discard("never was there")

    assert (ended.closed, other.closed) == (True, False)
    assert cache.acquire("other", Client) is other
