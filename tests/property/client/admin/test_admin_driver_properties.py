"""Whatever the brokers answer, every key ends as one result or one error, before the time is over."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.admin.admin_api_driver import AdminApiDriver, Retrying
from barnabas.client.admin.admin_metadata import AdminMetadata
from barnabas.client.admin.groups import DeleteGroupsHandler
from barnabas.client.default_metadata_updater import DefaultMetadataUpdater
from barnabas.client.metadata import MetadataRefresh
from barnabas.errors import KafkaTimeoutError
from barnabas.network.exponential_backoff import ExponentialBackoff
from barnabas.network.network_client import NetworkClient
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from barnabas.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from tests.support.network_fakes import FakeSelector, all_api_versions, metadata_response

KEYS = ["a", "b", "c", "d"]
PASSING, FINAL, LEFT_OUT, DISCONNECTS = 14, 68, "left out", "disconnects"
ANSWERS = st.lists(st.sampled_from([0, 0, PASSING, 15, 16, FINAL, LEFT_OUT, DISCONNECTS]), max_size=40)


class Cluster:
    """Two brokers that answer as the list says, and well when it is used up."""

    def __init__(self, answers: list[Any], max_find_coordinator: int) -> None:
        self.answers = list(answers)
        self.selector = FakeSelector()
        versions = all_api_versions()
        for api in versions.api_keys:
            if api.api_key == ApiKey.FIND_COORDINATOR:
                api.max_version = max_find_coordinator
        brokers = [(1, "one", 9092), (2, "two", 9092)]
        self.selector.handlers = {
            ApiKey.API_VERSIONS: lambda request: versions,
            ApiKey.METADATA: lambda request: metadata_response(brokers),
            ApiKey.FIND_COORDINATOR: self.find,
            ApiKey.DELETE_GROUPS: self.delete,
        }

    def next_answer(self) -> Any:
        return self.answers.pop(0) if self.answers else 0

    def disconnect(self) -> None:
        for node_id in (-1, 1, 2):
            self.selector.break_connection(node_id)

    def find(self, request: Any) -> FindCoordinatorResponse | None:
        if not request.coordinator_keys:
            answer = self.next_answer()
            code = answer if isinstance(answer, int) else PASSING
            return FindCoordinatorResponse(error_code=code, node_id=1, host="one", port=9092)
        found = []
        for key in request.coordinator_keys:
            answer = self.next_answer()
            if answer == DISCONNECTS:
                return self.disconnect()
            if answer != LEFT_OUT:
                found.append(Coordinator(key=key, node_id=1 + ord(key) % 2, host="h", port=9092, error_code=answer))
        return FindCoordinatorResponse(coordinators=found)

    def delete(self, request: Any) -> DeleteGroupsResponse | None:
        results = []
        for group in request.groups_names:
            answer = self.next_answer()
            if answer == DISCONNECTS:
                return self.disconnect()
            if answer != LEFT_OUT:
                results.append(DeletableGroupResult(group_id=group, error_code=answer))
        return DeleteGroupsResponse(results=results)


@settings(deadline=None)
@given(ANSWERS, st.sampled_from([3, 6]), st.sampled_from([0.05, 3.0, 1000.0]))
def test_every_key_ends_once_and_in_time(answers: list[Any], max_find_coordinator: int, timeout: float) -> None:
    cluster = Cluster(answers, max_find_coordinator)
    random = Random(json.dumps(answers))
    metadata = AdminMetadata(
        MetadataRefresh(backoff=0.1, backoff_max=1.0, max_age=300.0, random=random), uses_controllers=False
    )
    metadata.bootstrap([Node(-1, "boot", 9092)])
    updater = DefaultMetadataUpdater(metadata, request_timeout=30.0, rebootstrap_trigger=None)
    client = NetworkClient(cluster.selector, updater, "me", random=random)
    retrying = Retrying(ExponentialBackoff(0.1, 1.0, random), timeout, retries=2**31 - 1)
    driver = AdminApiDriver(DeleteGroupsHandler(), KEYS, client, metadata, retrying)
    now, polls = 0.0, 0
    while not driver.is_done:
        wait = driver.tick(now)
        if not driver.is_done:
            client.poll(wait, now)
            now += cluster.selector.polled[-1] if not happened(cluster.selector) else 0.0001
            polls += 1
    results = driver.results()
    assert sorted([*results, *results.errors]) == KEYS
    assert now <= timeout + 1.0
    assert polls < 3000
    if timeout == 1000.0:
        assert not any(isinstance(error, KafkaTimeoutError) for error in results.errors.values())
        assert len(results.errors) <= answers.count(FINAL)


def happened(selector: FakeSelector) -> bool:
    """Whether the last poll returned because something came."""
    return bool(selector.connected or selector.disconnected or selector.completed_sends or selector.completed_receives)
