"""Client quotas: whom they concern, how use is measured, how clients are made to wait (KIP-13, KIP-219, KIP-546)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas import errors
from barnabas.broker import client_quota_manager
from barnabas.broker.client_quota_manager import Rate, TokenBucket
from barnabas.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest
from barnabas.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce

INVALID = errors.InvalidRequestError.code
Entity = dict[str, str | None]


def alter(client: CoreClient, entity: Entity, validate_only: bool = False, **quotas: float | None) -> Any:
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()]
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=ops)], validate_only=validate_only)
    return client.request(request, 1).entries[0]


def describe(client: CoreClient, *filters: tuple[str, int, str | None], strict: bool = False) -> Any:
    components = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in filters]
    response = client.request(DescribeClientQuotasRequest(components=components, strict=strict), 1)
    if response.error_code:
        return response.error_code
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {v.key: v.value for v in entry.values}
        for entry in response.entries
    }


def limit(broker: CoreBroker, user: str, client_id: str) -> float | None:
    found: float | None = broker.state.client_quotas.limit(user, client_id, "producer_byte_rate")
    return found


class TestAltering:
    @pytest.mark.parametrize(
        ("entity", "quotas", "code"),
        [
            ({"user": "alice"}, {"producer_byte_rate": 1000}, 0),
            ({"user": None, "client-id": "c"}, {"request_percentage": 0.5, "controller_mutation_rate": 1.5}, 0),
            ({"ip": "1.2.3.4"}, {"connection_creation_rate": 1}, 0),
            ({"user": "alice"}, {"producer_byte_rate": 1000.5}, INVALID),
            ({"user": "alice"}, {"producer_byte_rate": 1e300}, INVALID),
            ({"user": "alice"}, {"producer_byte_rate": -1}, INVALID),
            ({"user": "alice"}, {"producer_byte_rate": float("nan")}, INVALID),
            ({"user": "alice"}, {"nope": 1}, INVALID),
            ({"user": "alice"}, {"connection_creation_rate": 1}, INVALID),
            ({"ip": "1.2.3.4"}, {"producer_byte_rate": 1}, INVALID),
            ({"ip": "not an ip"}, {"connection_creation_rate": 1}, INVALID),
            ({"ip": "1.2.3.4", "user": "a"}, {"connection_creation_rate": 1}, INVALID),
            ({}, {"producer_byte_rate": 1}, INVALID),
            ({"colour": "x"}, {"producer_byte_rate": 1}, INVALID),
            ({"user": ""}, {"producer_byte_rate": 1}, INVALID),
        ],
    )
    def test_what_can_be_and_what_cannot(
        self, client: CoreClient, entity: Entity, quotas: dict[str, float], code: int
    ) -> None:
        assert alter(client, entity, **quotas).error_code == code
        expected = {tuple(sorted(entity.items(), key=lambda part: part[0])): quotas} if code == 0 else {}
        assert describe(client) == expected

    def test_removing_the_last_quota_removes_the_entity(self, client: CoreClient) -> None:
        alter(client, {"user": "alice"}, producer_byte_rate=1, consumer_byte_rate=2)
        alter(client, {"user": "alice"}, producer_byte_rate=None, request_percentage=None)
        assert describe(client) == {(("user", "alice"),): {"consumer_byte_rate": 2.0}}
        alter(client, {"user": "alice"}, consumer_byte_rate=None)
        assert describe(client) == {}
        assert not client.broker.state.client_quotas.enabled

    def test_validate_only(self, client: CoreClient) -> None:
        assert alter(client, {"user": "alice"}, validate_only=True, producer_byte_rate=1).error_code == 0
        assert describe(client) == {}

    def test_they_last_over_a_crash(self, client: CoreClient) -> None:
        alter(client, {"user": None, "client-id": "c"}, producer_byte_rate=7)
        after = client.broker.crashed()
        assert describe(after.connect()) == {(("client-id", "c"), ("user", None)): {"producer_byte_rate": 7.0}}
        assert limit(after, "anybody", "c") == 7.0


class TestDescribing:
    def test_filters(self, client: CoreClient) -> None:
        for entity in ({"user": "alice"}, {"user": None}, {"user": None, "client-id": "c"}, {"client-id": "c"}):
            alter(client, entity, producer_byte_rate=1)

        def found(*filters: tuple[str, int, str | None], strict: bool = False) -> set[Any]:
            return set(describe(client, *filters, strict=strict))

        alice, default = (("user", "alice"),), (("user", None),)
        both, client_id = (("client-id", "c"), ("user", None)), (("client-id", "c"),)
        assert found() == {alice, default, both, client_id}
        assert found(strict=True) == set()
        assert found(("user", 0, "alice")) == {alice}
        assert found(("user", 1, None)) == {default, both}
        assert found(("user", 2, None)) == {alice, default, both}
        assert found(("user", 2, None), strict=True) == {alice, default}
        assert found(("client-id", 0, "c"), ("user", 1, None)) == {both}

    @pytest.mark.parametrize(
        ("filters", "code"),
        [
            ([("colour", 0, "x")], errors.UnsupportedVersionError.code),
            ([("user", 0, None)], INVALID),
            ([("user", 1, "x")], INVALID),
            ([("user", 7, "x")], INVALID),
            ([("", 0, "x")], INVALID),
            ([("user", 0, "a"), ("user", 0, "b")], INVALID),
            ([("ip", 2, None), ("user", 2, None)], INVALID),
        ],
    )
    def test_filters_that_make_no_sense(self, client: CoreClient, filters: Any, code: int) -> None:
        assert describe(client, *filters) == code


def test_the_most_specific_quota_holds(client: CoreClient) -> None:
    order: list[Entity] = [
        {"client-id": None},
        {"client-id": "c"},
        {"user": None},
        {"user": None, "client-id": None},
        {"user": None, "client-id": "c"},
        {"user": "u"},
        {"user": "u", "client-id": None},
        {"user": "u", "client-id": "c"},
    ]
    assert limit(client.broker, "u", "c") is None
    for rank, entity in enumerate(order):
        alter(client, entity, producer_byte_rate=rank + 1)
        assert limit(client.broker, "u", "c") == rank + 1
    assert limit(client.broker, "other", "c") == 5
    assert limit(client.broker, "u", "other") == 7


class TestRate:
    def test_the_wait_brings_the_rate_back_to_the_limit(self) -> None:
        rate = Rate(11, 1.0)
        rate.record(5000, 100.0)
        # 5,000 in a window of ten seconds are 500 a second: five times as much as allowed.
        assert rate.throttle(100, 100.0) == pytest.approx(40.0)
        assert rate.throttle(500, 100.0) == 0.0

    def test_what_is_long_ago_does_not_count(self) -> None:
        rate = Rate(11, 1.0)
        rate.record(5000, 100.0)
        assert rate.throttle(100, 110.9) > 0
        assert rate.throttle(100, 111.0) == 0.0

    def test_what_is_taken_back_does_not_count(self) -> None:
        rate = Rate(11, 1.0)
        rate.record(5000, 100.0)
        rate.record(-5000, 100.0)
        assert rate.throttle(100, 100.0) == 0.0

    @given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 1000)), max_size=60))
    def test_who_stays_below_the_limit_never_waits(self, uses: list[tuple[float, int]]) -> None:
        rate, now = Rate(11, 1.0), 0.0
        for seconds, amount in uses:
            now += seconds + amount / 100
            rate.record(amount, now)
            assert rate.throttle(110, now) < 10.1

    def test_a_bucket_allows_a_burst_and_then_the_rate(self) -> None:
        bucket = TokenBucket(10.0, 2.0, 100.0)
        bucket.take(30)
        assert bucket.throttle(2.0, 100.0) == pytest.approx(5.0)
        assert bucket.throttle(2.0, 103.0) == pytest.approx(2.0)
        assert bucket.throttle(2.0, 105.0) == 0.0


class TestProducing:
    def test_the_answer_comes_at_once_and_the_connection_is_muted(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        alter(client, {"client-id": "heavy"}, producer_byte_rate=1000)
        request = produce("t", batch(bytes(20_000)))
        answer = client.request(request, 12, client_id="heavy")
        # Some 20,000 bytes in a window of ten seconds are 2,000 a second, twice the limit.
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms == pytest.approx(10_000, rel=0.05)
        assert client.request(MetadataRequest(topics=[]), 12, client_id="heavy") is None
        client.broker.advance(answer.throttle_time_ms / 1000 - 0.01)
        assert len(client.responses) == 3
        client.broker.advance(0.02)
        assert len(client.responses) == 4

    def test_others_do_not_wait(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        alter(client, {"client-id": "heavy"}, producer_byte_rate=1000)
        client.request(produce("t", batch(bytes(20_000))), 12, client_id="heavy")
        other = client.broker.connect()
        answer = other.request(produce("t", batch(bytes(20_000))), 12, client_id="light")
        assert answer.throttle_time_ms == 0
        assert other.request(MetadataRequest(topics=[]), 12) is not None

    def test_all_connections_of_a_client_share_its_quota(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        alter(client, {"user": None}, producer_byte_rate=1000)
        waits = [
            client.broker.connect().request(produce("t", batch(bytes(8_000))), 12, client_id=name).throttle_time_ms
            for name in ("a", "b")
        ]
        assert waits[0] == 0
        assert waits[1] > 5000

    def test_without_an_answer_the_connection_is_muted_all_the_same(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        alter(client, {"client-id": "test"}, producer_byte_rate=1000)
        client.send(produce("t", batch(bytes(20_000)), acks=0), 12)
        client._expected.pop()
        assert client.request(MetadataRequest(topics=[]), 12) is None
        client.broker.advance(11)
        assert len(client.responses) == 3

    def test_a_lifted_quota_is_felt_at_once_by_those_who_do_not_wait_yet(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        alter(client, {"client-id": "test"}, producer_byte_rate=1)
        alter(client, {"client-id": "test"}, producer_byte_rate=None)
        assert client.request(produce("t", batch(bytes(20_000))), 12).throttle_time_ms == 0


class TestFetching:
    def test_who_has_had_too_much_gets_nothing_until_the_wait_is_over(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        client.request(produce("t", batch(bytes(9_000))), 12)
        alter(client, {"client-id": "test"}, consumer_byte_rate=1000)
        first = client.request(fetch("t"), 12)
        assert (first.throttle_time_ms, len(first.responses[0].partitions[0].records) > 9_000) == (0, True)
        second = client.request(fetch("t"), 12)
        assert second.throttle_time_ms > 0
        assert second.responses == []
        assert client.request(fetch("t"), 12) is None
        client.broker.advance(second.throttle_time_ms / 1000 + 0.1)
        assert client.responses[-1] is not second

    def test_a_session_goes_on_after_the_wait(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        for _ in range(2):
            client.request(produce("t", batch(bytes(9_000))), 12)
        opened = client.request(fetch("t", 2, session_epoch=0), 12)
        alter(client, {"client-id": "test"}, consumer_byte_rate=2000)
        values = [fetch("t", 0, session_id=opened.session_id, session_epoch=epoch) for epoch in (1, 2, 3)]
        read = client.request(values[0], 12)
        assert len(read.responses) == 1
        throttled = client.request(values[1], 12)
        assert (throttled.error_code, throttled.session_id, throttled.responses) == (0, opened.session_id, [])
        client.broker.advance(30)
        assert len(client.request(values[2], 12).responses) == 1


class TestRequests:
    def test_time_of_requests_counts_and_no_wait_is_longer_than_a_window(self, client: CoreClient) -> None:
        clock = [0.0]

        def timer() -> float:
            clock[0] += 0.2
            return clock[0]

        client.broker.node.core.timer = timer
        alter(client, {"client-id": "test"}, request_percentage=1)
        found = client.request(MetadataRequest(topics=[]), 12)
        assert 0 < found.throttle_time_ms <= 1000
        assert client.request(MetadataRequest(topics=[]), 12) is None
        client.broker.advance(1.1)
        assert client.responses[-1] is not found


class TestChangingTopics:
    def test_clients_that_know_the_error_get_it(self, client: CoreClient) -> None:
        alter(client, {"client-id": "test"}, controller_mutation_rate=1)
        assert client.request(create("a", 20), 7).topics[0].error_code == 0
        refused = client.request(create("b", 1), 7)
        assert refused.topics[0].error_code == errors.ThrottlingQuotaExceededError.code
        assert refused.throttle_time_ms == pytest.approx(9_000)
        client.broker.advance(9.1)
        assert client.request(create("b", 1), 7).topics[0].error_code == 0

    def test_older_clients_are_served_and_wait(self, client: CoreClient) -> None:
        alter(client, {"client-id": "test"}, controller_mutation_rate=1)
        found = client.request(create("a", 20), 5)
        assert (found.topics[0].error_code, found.throttle_time_ms) == (0, 9_000)

    def test_deleting_counts_too(self, client: CoreClient) -> None:
        client.request(create("a", 20), 7)
        client.request(create("b", 1), 7)
        alter(client, {"client-id": "test"}, controller_mutation_rate=1)
        codes = [
            client.request(DeleteTopicsRequest(topic_names=[name]), 5).responses[0].error_code for name in ("a", "b")
        ]
        assert codes == [0, errors.ThrottlingQuotaExceededError.code]


@pytest.mark.parametrize("entity", [{"user": "ANONYMOUS"}, {"user": None}])
def test_invented_client_ids_do_not_wipe_out_what_a_user_has_used(
    client: CoreClient, monkeypatch: pytest.MonkeyPatch, entity: Entity
) -> None:
    monkeypatch.setattr(client_quota_manager, "MAX_CLIENTS", 10)
    client.request(create("t"), 7)
    alter(client, entity, producer_byte_rate=1000)
    heavy, crowd = client.broker.connect(), client.broker.connect()
    crowd.connection.info.principal = "User:mallory"
    assert heavy.request(produce("t", batch(bytes(8_000))), 12, client_id="a").throttle_time_ms == 0
    for number in range(30):
        client.broker.advance(0.01)
        assert crowd.request(produce("t", batch(b"")), 12, client_id=f"invented-{number}") is not None
    answer = heavy.request(produce("t", batch(bytes(8_000))), 12, client_id="b")
    assert answer.throttle_time_ms > 5000


def test_what_a_user_used_is_forgotten_after_an_hour(client: CoreClient) -> None:
    client.request(create("t"), 7)
    alter(client, {"user": None}, producer_byte_rate=1000)
    client.request(produce("t", batch(b"x")), 12, client_id="a")
    quotas = client.broker.state.client_quotas
    assert len(quotas._measures) == 1
    client.broker.advance(3 * 3600)
    client.request(produce("t", batch(b"x")), 12, client_id="b")
    quotas._client("somebody", "else", client.broker.now + 7200)
    assert not quotas._measures
