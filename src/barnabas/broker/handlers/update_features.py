"""UpdateFeatures: finalized levels of features (KIP-584, KIP-1022).

Versions 0-2. v1 upgrade type in place of allow_downgrade, validate_only (KIP-584). v2 no more results of single
features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.features import FeatureUpdate, finalized, updated
from barnabas.protocol.kinds import UpgradeType
from barnabas.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from barnabas.protocol.thresholds import UPDATE_FEATURES_UPGRADE_TYPE_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.update_features_request import UpdateFeaturesRequest

API = 57
VERSIONS = (0, 2)

_NO_RESULTS_FROM = 2


def handle(
    broker: BrokerState, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | DelayedOperation:
    """All updates or none."""
    return broker.in_turn(lambda: _change(broker, context, request))


def _change(
    broker: BrokerState, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | DelayedOperation:
    updates = []
    for asked in request.feature_updates:
        kind = asked.upgrade_type
        if context.api_version < UPDATE_FEATURES_UPGRADE_TYPE_FROM:
            kind = UpgradeType.SAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE
        updates.append(FeatureUpdate(asked.feature, asked.max_version_level, kind))
    current = finalized(broker.metadata)
    try:
        levels = updated(current, updates)
    except errors.KafkaError as problem:
        return UpdateFeaturesResponse(
            error_code=problem.code,
            error_message=f"The update failed for all features since the following feature had an error: {problem}",
        )

    def answer(problem: errors.KafkaError | None) -> UpdateFeaturesResponse:
        if problem is not None:
            return UpdateFeaturesResponse(error_code=problem.code, error_message=str(problem))
        results = []
        if context.api_version < _NO_RESULTS_FROM:
            results = [UpdatableFeatureResult(feature=update.name, error_message=None) for update in updates]
        return UpdateFeaturesResponse(error_message=None, results=results)

    if levels == current or request.validate_only:
        return answer(None)
    return broker.commit(lambda done: broker.metadata.put_features(levels, done), answer)
