"""What is known of an API by its key."""

from __future__ import annotations

import pytest

from barnabas.errors import IllegalArgumentError, UnsupportedVersionError
from barnabas.protocol.api import (
    ApiKey,
    message_class,
    negotiate,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
    stable_versions,
)


def test_keys_lead_to_classes_and_back() -> None:
    for key in ApiKey:
        request, response = request_class(key), response_class(key)
        assert (key, key) == (request.API_KEY, response.API_KEY)
        assert request.NAME == f"{request.__name__}" == response.NAME.replace("Response", "Request")
        assert request.VALID_VERSIONS == response.VALID_VERSIONS
        assert request.FLEXIBLE_FROM == response.FLEXIBLE_FROM


def test_names_lead_to_classes() -> None:
    assert message_class("FetchRequest") is request_class(ApiKey.FETCH)
    assert message_class("KRaftVersionRecord").NAME == "KRaftVersionRecord"


@pytest.mark.parametrize("name", ["Fetch", "fetch_request", "", "os", "FetchTopic", "../x", "fetchRequest"])
def test_a_name_that_is_no_message_is_refused(name: str) -> None:
    with pytest.raises(IllegalArgumentError, match="There is no message named"):
        message_class(name)


def test_a_key_that_is_no_api_is_refused() -> None:
    for ask in (request_class, response_class, stable_versions, lambda key: request_header_version(key, 0)):
        with pytest.raises(IllegalArgumentError, match="There is no API with the key 999"):
            ask(999)


def test_the_highest_common_version_is_chosen() -> None:
    assert negotiate(ApiKey.FETCH, 0, 99) == 18
    assert negotiate(ApiKey.FETCH, 4, 12) == 12
    assert negotiate(ApiKey.FETCH, 18, 20) == 18


@pytest.mark.parametrize(("low", "high"), [(0, 3), (19, 30)])
def test_ranges_that_do_not_meet_are_an_error_that_names_both(low: int, high: int) -> None:
    with pytest.raises(
        UnsupportedVersionError, match=f"FETCH: the broker has the versions {low} to {high}, .* 4 to 18"
    ):
        negotiate(ApiKey.FETCH, low, high)


def test_what_4_0_dropped_keeps_the_versions_of_3_9_for_clusters_under_zookeeper() -> None:
    dropped = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)

    assert [stable_versions(key) for key in dropped] == [(0, 7), (0, 4), (0, 8), (1, 3)]


def test_a_version_that_kafka_marks_unstable_is_not_negotiated() -> None:
    unstable = [key for key in ApiKey if request_class(key).LATEST_VERSION_UNSTABLE]

    for key in unstable:
        assert stable_versions(key)[1] == request_class(key).VALID_VERSIONS[1] - 1


def test_header_versions_follow_the_flexible_versions() -> None:
    assert [request_header_version(ApiKey.FETCH, version) for version in (11, 12)] == [1, 2]
    assert [response_header_version(ApiKey.FETCH, version) for version in (11, 12)] == [0, 1]


def test_api_versions_responses_always_have_header_version_0() -> None:
    assert [request_header_version(ApiKey.API_VERSIONS, version) for version in (2, 3)] == [1, 2]
    assert [response_header_version(ApiKey.API_VERSIONS, version) for version in (2, 3, 99)] == [0, 0, 0]
