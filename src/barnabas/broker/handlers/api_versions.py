"""ApiVersions: what this broker serves (KIP-35, KIP-511).

Versions 0-4. v1 throttle time. v2 throttled after the response (KIP-219). v3 flexible, the client's software (KIP-511),
features (KIP-584). v4 features may begin at 0 (KAFKA-17011).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.features import FEATURES, finalized
from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest

API = 18
VERSIONS = (0, 4)

#: Older librdkafka does not compress where it finds no Produce of version 0, which it never sends (KAFKA-18659).
_LOWEST_SAID = {0: 0}

#: Offered only where a receiver of client metrics is configured, as in Kafka.
_TELEMETRY = frozenset((71, 72))

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: BrokerState, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer even those who ask in a version that is not served: with UNSUPPORTED_VERSION, in version 0."""
    if context.api_version > VERSIONS[1]:
        own = ApiVersion(api_key=API, min_version=VERSIONS[0], max_version=VERSIONS[1])
        return ApiVersionsResponse(error_code=errors.UnsupportedVersionError.code, api_keys=[own])
    if context.api_version >= 3 and software_problem(context, request):
        return ApiVersionsResponse(error_code=errors.InvalidRequestError.code)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=_LOWEST_SAID.get(key, low), max_version=high)
            for key, (_, low, high) in SERVED.items()
            if key not in _TELEMETRY or broker.client_metrics is not None
        ]
        + _of_clusters(broker),
        supported_features=[
            # Versions before 4 cannot say that a feature can be off.
            SupportedFeatureKey(
                name=name,
                min_version=feature.lowest if context.api_version >= 4 else max(1, feature.lowest),
                max_version=feature.highest,
            )
            for name, feature in FEATURES.items()
        ],
        finalized_features_epoch=broker.metadata.version,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized(broker.metadata).items()
            if level > 0
        ],
    )


def software_problem(context: RequestContext, request: ApiVersionsRequest) -> bool:
    """Note what software the client is; whether that is no name that may be said (KIP-511)."""
    name, version = request.client_software_name, request.client_software_version
    if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
        return True
    context.connection.client_software_name = name
    context.connection.client_software_version = version
    return False


def _of_clusters(broker: BrokerState) -> list[ApiVersion]:
    if broker.member is None:
        return []
    return [ApiVersion(int(key), low, high) for key, (_, low, high) in broker.member.served_apis.items()]
