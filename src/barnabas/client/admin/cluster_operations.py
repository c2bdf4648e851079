"""What an admin client does with the cluster as a whole: brokers, features, the metadata quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.client.admin.admin_operations import AdminOperations
from barnabas.client.admin.cluster import (
    ClusterDescription,
    DescribeClusterHandler,
    FeatureMetadata,
    FeatureUpdate,
    describe_cluster_by_metadata,
    describe_features,
    unregister_broker,
    update_features,
)
from barnabas.client.admin.quorum import (
    DescribeQuorumHandler,
    QuorumInfo,
    RaftVoterEndpoint,
    add_voter,
    remove_voter,
)
from barnabas.client.admin.results import Results
from barnabas.client.arguments import INT32, as_integer
from barnabas.client.steps import Steps
from barnabas.client.telemetry.reports_telemetry import client_instance_id
from barnabas.errors import UnsupportedVersionError
from barnabas.protocol.kinds import EndpointType


class ClusterOperations(AdminOperations):
    """The cluster."""

    def describe_cluster(
        self,
        *,
        include_fenced_brokers: bool = False,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """Return the cluster's id, brokers and controller.

        With `bootstrap.controllers`, controllers instead of brokers.
        """
        return self._complete(self._describe_cluster(include_fenced_brokers, include_authorized_operations, timeout))

    def _describe_cluster(self, fenced: bool, operations: bool, timeout: float | None) -> Steps[ClusterDescription]:
        deadline = self._deadline(timeout)
        uses_controllers = self._metadata.uses_controllers
        handler = DescribeClusterHandler(
            include_fenced_brokers=fenced,
            include_authorized_operations=operations,
            endpoint_type=EndpointType.CONTROLLER if uses_controllers else EndpointType.BROKER,
        )
        try:
            return (yield from self._ask_one(handler, "cluster", deadline))
        except UnsupportedVersionError:
            if fenced or uses_controllers:
                raise
        older = describe_cluster_by_metadata(include_authorized_operations=operations)
        return (yield from self._ask_one(older, "cluster", deadline))

    def describe_features(self, *, node_id: int | None = None, timeout: float | None = None) -> FeatureMetadata:
        """Return the features that are switched on, and those that could be, as any broker sees it or this one."""
        node = None if node_id is None else as_integer(node_id, "node_id", 0, INT32)
        return self._run_one(describe_features(node), "features", timeout)

    def update_features(
        self,
        updates: Mapping[str, FeatureUpdate | int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Set the levels of features, by name, as `FeatureUpdate` or as a number to go up to; all or none.

        Raises `InvalidUpdateVersionError`, `FeatureUpdateFailedError`, `InvalidRequestError`, ...

        """
        wanted = {name: FeatureUpdate(new) if isinstance(new, int) else new for name, new in updates.items()}
        return self._run(update_features(wanted, validate_only=validate_only), wanted, timeout, raise_errors)

    def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumInfo:
        """Return the controllers that keep the cluster's metadata, and how far each of them is."""
        return self._run_one(DescribeQuorumHandler(), "quorum", timeout)

    def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: bytes,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Let a controller vote; its directory's id (16 bytes) is in its meta.properties.

        Raises `DuplicateVoterError`, `InconsistentClusterIdError`, `UnsupportedVersionError` (a quorum with
        fixed voters), ...

        """
        return self._done(add_voter(voter_id, voter_directory_id, endpoints, cluster_id), "voter", timeout)

    def remove_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: bytes,
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Take the vote from a controller.

        Raises `VoterNotFoundError`, `InconsistentClusterIdError`, `UnsupportedVersionError` (a quorum with
        fixed voters), ...

        """
        return self._done(remove_voter(voter_id, voter_directory_id, cluster_id), "voter", timeout)

    def unregister_broker(self, broker_id: int, *, timeout: float | None = None) -> None:
        """Forget a broker that is gone for good.

        Raises `BrokerIdNotRegisteredError`, ...

        """
        return self._done(unregister_broker(broker_id), "broker", timeout)

    def client_instance_id(self, *, timeout: float | None = None) -> bytes:
        """Return the id (16 bytes) that the cluster gave this client for its telemetry (KIP-714).

        Raises `UnsupportedVersionError` when the brokers take no telemetry. Raises `IllegalStateError`:
        enable.metrics.push is off.

        """
        sender = self._telemetry_sender(timeout)
        self._ensure_open()
        wait = self._deadline(timeout) - self._clock()
        return self._complete(client_instance_id(sender, self._client, self._client.poll, self._clock, wait))
