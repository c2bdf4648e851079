"""The cluster itself: its brokers, its features (KIP-584, KIP-778), and the number that it gives a client (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas import __version__
from barnabas.client.admin.acls import authorized_operations
from barnabas.client.admin.admin_api_handler import Outcome, Scope, StaticLookup
from barnabas.client.admin.admin_metadata import FIRST_DESCRIBE_CLUSTER_WITH_ENDPOINTS
from barnabas.client.admin.requests import Answer, KeyedRequest, one_request
from barnabas.network.client_request import SOFTWARE_NAME, RequestBuilder
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.kinds import AclOperation, EndpointType, UpgradeType
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.protocol.thresholds import UPDATE_FEATURES_UPGRADE_TYPE_FROM

if TYPE_CHECKING:
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse
    from barnabas.protocol.messages.describe_cluster_response import DescribeClusterResponse
    from barnabas.protocol.messages.metadata_response import MetadataResponse
    from barnabas.protocol.messages.update_features_response import UpdateFeaturesResponse

_FIRST_WITH_FENCED_BROKERS = 2
_METADATA_WITH_OPERATIONS = 8, 10
_FIRST_API_VERSIONS_WITH_FEATURES = 3


class ClusterDescription(NamedTuple):
    """The cluster's id, its brokers and which of them is the controller (None when there is none now).

    `fenced` has the brokers that are registered and not alive, if they were asked for; `authorized_operations` what
    the caller may do, if that was.
    """

    cluster_id: str | None
    nodes: list[Node]
    controller: Node | None
    fenced: frozenset[int] = frozenset()
    authorized_operations: frozenset[AclOperation] | None = None


def all_brokers() -> KeyedRequest[str, list[Node]]:
    """Metadata of no topics, from any broker: the brokers that are alive."""

    def read(response: MetadataResponse) -> list[Node]:
        return [Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers]

    return one_request("find brokers", lambda timeout_ms: MetadataRequest(topics=[]), read)


class DescribeClusterHandler:
    """DescribeCluster, from any broker or the active controller; its only key is "cluster"."""

    name = "describe_cluster"

    def __init__(
        self,
        *,
        include_fenced_brokers: bool = False,
        include_authorized_operations: bool = False,
        endpoint_type: EndpointType = EndpointType.BROKER,
    ) -> None:
        self.lookup: StaticLookup[str] = StaticLookup(Scope.ANY)
        self._message = DescribeClusterRequest(
            endpoint_type=endpoint_type,
            include_fenced_brokers=include_fenced_brokers,
            include_cluster_authorized_operations=include_authorized_operations,
        )

    def build_request(self, keys: list[str], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""
        low, high = stable_versions(ApiKey.DESCRIBE_CLUSTER)
        if self._message.endpoint_type != EndpointType.BROKER:
            low = max(low, FIRST_DESCRIBE_CLUSTER_WITH_ENDPOINTS)
        if self._message.include_fenced_brokers:
            low = max(low, _FIRST_WITH_FENCED_BROKERS)
        return RequestBuilder(ApiKey.DESCRIBE_CLUSTER, lambda _: self._message, low, high)

    def handle_response(
        self, keys: list[str], response: DescribeClusterResponse, outcome: Outcome[str, ClusterDescription]
    ) -> None:
        """See `AdminApiHandler`."""
        if outcome.is_success(keys[0], response.error_code, response.error_message):
            nodes = {b.broker_id: Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers}
            description = ClusterDescription(
                response.cluster_id,
                list(nodes.values()),
                nodes.get(response.controller_id),
                frozenset(broker.broker_id for broker in response.brokers if broker.is_fenced),
                authorized_operations(response.cluster_authorized_operations),
            )
            outcome.complete(keys[0], description)


def describe_cluster_by_metadata(*, include_authorized_operations: bool) -> KeyedRequest[str, ClusterDescription]:
    """Metadata of no topics, for brokers before 2.8, which know no DescribeCluster."""
    message = MetadataRequest(topics=[], include_cluster_authorized_operations=include_authorized_operations)
    low, high = stable_versions(ApiKey.METADATA)
    low, high = _METADATA_WITH_OPERATIONS if include_authorized_operations else (low, high)

    def read(response: MetadataResponse) -> ClusterDescription:
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        operations = authorized_operations(response.cluster_authorized_operations)
        controller = nodes.get(response.controller_id)
        return ClusterDescription(response.cluster_id, list(nodes.values()), controller, frozenset(), operations)

    return one_request(
        "describe_cluster", lambda timeout_ms: RequestBuilder(ApiKey.METADATA, lambda _: message, low, high), read
    )


class VersionRange(NamedTuple):
    """The lowest and the highest level of a feature."""

    min_version: int
    max_version: int


class FeatureMetadata(NamedTuple):
    """The features of a cluster: what is switched on (as of `finalized_epoch`, -1: unknown), and what could be."""

    finalized: dict[str, VersionRange]
    finalized_epoch: int
    supported: dict[str, VersionRange]


class FeatureUpdate(NamedTuple):
    """A feature's new level; 0 switches it off."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


def describe_features(node_id: int | None) -> KeyedRequest[str, FeatureMetadata]:
    """ApiVersions, at any broker or at the one that is given."""
    message = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
    high = stable_versions(ApiKey.API_VERSIONS)[1]

    def build(timeout_ms: int) -> RequestBuilder:
        return RequestBuilder(ApiKey.API_VERSIONS, lambda _: message, _FIRST_API_VERSIONS_WITH_FEATURES, high)

    def read(response: ApiVersionsResponse) -> FeatureMetadata:
        return FeatureMetadata(
            {f.name: VersionRange(f.min_version_level, f.max_version_level) for f in response.finalized_features},
            response.finalized_features_epoch,
            {f.name: VersionRange(f.min_version, f.max_version) for f in response.supported_features},
        )

    return one_request("describe_features", build, read, Scope.ANY if node_id is None else lambda _: node_id)


def update_features(updates: Mapping[str, FeatureUpdate], *, validate_only: bool) -> KeyedRequest[str, None]:
    """UpdateFeatures, at the controller; all or none."""

    def build(keys: list[str], timeout_ms: int) -> RequestBuilder:
        def of_version(version: int) -> UpdateFeaturesRequest:
            return UpdateFeaturesRequest(
                timeout_ms=timeout_ms,
                validate_only=validate_only,
                feature_updates=[_update(key, updates[key], version) for key in keys],
            )

        low, high = stable_versions(ApiKey.UPDATE_FEATURES)
        return RequestBuilder(ApiKey.UPDATE_FEATURES, of_version, low, high)

    def answers(keys: list[str], response: UpdateFeaturesResponse) -> Iterable[Answer[str, None]]:
        told = {result.feature: result for result in response.results}
        for key in keys:
            # From version 2 on the response has no more than an error for all of them.
            result = told.get(key)
            yield (key, 0, None, None) if result is None else (key, result.error_code, result.error_message, None)

    return KeyedRequest("update_features", StaticLookup(Scope.CONTROLLER), build, answers)


def _update(name: str, update: FeatureUpdate, version: int) -> FeatureUpdateKey:
    if version < UPDATE_FEATURES_UPGRADE_TYPE_FROM:
        downgrades = update.upgrade_type != UpgradeType.UPGRADE
        return FeatureUpdateKey(feature=name, max_version_level=update.max_version_level, allow_downgrade=downgrades)
    return FeatureUpdateKey(feature=name, max_version_level=update.max_version_level, upgrade_type=update.upgrade_type)


def unregister_broker(broker_id: int) -> KeyedRequest[str, None]:
    """UnregisterBroker, at any broker."""
    request = UnregisterBrokerRequest(broker_id=broker_id)
    return one_request("unregister_broker", lambda timeout_ms: request, _nothing)


def _nothing(response: Message) -> None:
    return None
