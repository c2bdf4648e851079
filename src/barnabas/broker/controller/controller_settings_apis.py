"""The controller's APIs of settings, features, quotas, ACLs, users and tokens (ControllerApis)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas import errors
from barnabas.broker.controller.configuration_control_manager import Alteration
from barnabas.broker.controller.controller_result import Outcome
from barnabas.broker.features import FeatureUpdate
from barnabas.broker.security.acl_binding import AclBinding, AclFilter
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kinds import ConfigResourceType, OpType, UpgradeType
from barnabas.protocol.messages import alter_configs_response, incremental_alter_configs_response
from barnabas.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData
from barnabas.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from barnabas.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from barnabas.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from barnabas.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.broker.controller.acl_control_manager import DeletedAcls
    from barnabas.broker.controller.controller_result import ControllerRequestContext, ControllerResult
    from barnabas.broker.controller.deferred import Deferred
    from barnabas.broker.controller.quorum_controller import QuorumController
    from barnabas.broker.metadata.metadata_image import Resource
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages import alter_configs_request, incremental_alter_configs_request
    from barnabas.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
    from barnabas.protocol.messages.alter_configs_request import AlterConfigsRequest
    from barnabas.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
    from barnabas.protocol.messages.create_acls_request import CreateAclsRequest
    from barnabas.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
    from barnabas.protocol.messages.delete_acls_request import DeleteAclsRequest
    from barnabas.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
    from barnabas.protocol.messages.incremental_alter_configs_request import (
        AlterableConfig,
        IncrementalAlterConfigsRequest,
    )
    from barnabas.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
    from barnabas.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

    # Each takes the request of its API; only the table of them does not tell them apart.
    Answer = Callable[[QuorumController, ControllerRequestContext, Any], Deferred[Message]]

R = TypeVar("R")
T = TypeVar("T", "alter_configs_request.AlterConfigsResource", "incremental_alter_configs_request.AlterConfigsResource")

#: Up to this version UpdateFeatures answers for each feature.
_EACH_FEATURE_TO = 1


def _incremental_alter_configs(
    controller: QuorumController, context: ControllerRequestContext, request: IncrementalAlterConfigsRequest
) -> Deferred[Message]:
    response = incremental_alter_configs_response.IncrementalAlterConfigsResponse
    result = incremental_alter_configs_response.AlterConfigsResourceResponse
    refusals, resources = _sorted_out(request.resources)
    changes: dict[Resource, dict[str, Alteration]] = {}
    for asked in resources:
        whose = (asked.resource_type, asked.resource_name)
        problem = _problem_of(asked.configs)
        if problem is None:
            changes[whose] = {one.name: Alteration(one.config_operation, one.value) for one in asked.configs}
        else:
            refusals[whose] = Outcome(errors.InvalidRequestError.code, problem)
    alter = controller.managers.configs.incremental_alter_configs

    def operation() -> ControllerResult[dict[Resource, Outcome]]:
        found = alter(changes, is_forwarded=context.is_forwarded)
        return found.without_records() if request.validate_only else found

    return controller.write(operation).map(
        lambda outcomes: response(responses=_results(result, {**outcomes, **refusals}))
    )


def _alter_configs(
    controller: QuorumController, context: ControllerRequestContext, request: AlterConfigsRequest
) -> Deferred[Message]:
    refusals, resources = _sorted_out(request.resources)
    wanted: dict[Resource, dict[str, str]] = {}
    for asked in resources:
        whose = (asked.resource_type, asked.resource_name)
        configs = {one.name: one.value for one in asked.configs if one.value is not None}
        if len(configs) == len(asked.configs):
            wanted[whose] = configs
        else:
            nulls = ", ".join(one.name for one in asked.configs if one.value is None)
            problem = f"Null value not supported for : {nulls}" if nulls else _named_twice(asked.configs)
            refusals[whose] = Outcome(errors.InvalidRequestError.code, problem)
    alter = controller.managers.configs.legacy_alter_configs

    def operation() -> ControllerResult[dict[Resource, Outcome]]:
        found = alter(wanted, is_forwarded=context.is_forwarded)
        return found.without_records() if request.validate_only else found

    result = alter_configs_response.AlterConfigsResourceResponse
    return controller.write(operation).map(
        lambda outcomes: alter_configs_response.AlterConfigsResponse(
            responses=_results(result, {**outcomes, **refusals})
        )
    )


def _sorted_out(resources: Sequence[T]) -> tuple[dict[Resource, Outcome], list[T]]:
    """Return the refusals of resources that cannot be meant, and the others."""
    times = Counter((asked.resource_type, asked.resource_name) for asked in resources)
    refusals: dict[Resource, Outcome] = {}
    for whose, count in times.items():
        if whose[0] not in tuple(ConfigResourceType) or whose[0] == ConfigResourceType.UNKNOWN:
            refusals[whose] = Outcome(errors.UnsupportedVersionError.code, f"Unknown resource type {whose[0]}.")
        elif count > 1:
            refusals[whose] = Outcome(errors.InvalidRequestError.code, "Duplicate resource.")
        elif whose[0] == ConfigResourceType.BROKER_LOGGER:
            refusals[whose] = Outcome(
                errors.InvalidRequestError.code, "A controller's loggers cannot be changed while it runs."
            )
    return refusals, [asked for asked in resources if (asked.resource_type, asked.resource_name) not in refusals]


def _problem_of(configs: Sequence[AlterableConfig]) -> str | None:
    for one in configs:
        if one.config_operation not in tuple(OpType):
            return f"Unknown operations type {one.config_operation}"
        if one.config_operation != OpType.DELETE and one.value is None:
            return f"Null value not supported for : {one.name}"
    return _named_twice(configs)


def _named_twice(
    configs: Sequence[AlterableConfig] | Sequence[alter_configs_request.AlterableConfig],
) -> str | None:
    twice = [name for name, count in Counter(one.name for one in configs).items() if count > 1]
    return f"Error due to duplicate config keys: {', '.join(twice)}" if twice else None


def _results(result: Callable[..., R], outcomes: Mapping[Resource, Outcome]) -> list[R]:
    return [
        result(error_code=outcome.code, error_message=outcome.message, resource_type=kind, resource_name=name)
        for (kind, name), outcome in outcomes.items()
    ]


def _update_features(
    controller: QuorumController, context: ControllerRequestContext, request: UpdateFeaturesRequest
) -> Deferred[Message]:
    updates = [
        FeatureUpdate(one.feature, one.max_version_level, _upgrade_type(context.api_version, one))
        for one in request.feature_updates
    ]

    def done(problem: errors.KafkaError | None) -> Message:
        if problem is not None:
            text = f"The update failed for all features since the following feature had an error: {problem}"
            return UpdateFeaturesResponse(error_code=problem.code, error_message=text)
        names = [one.feature for one in request.feature_updates] if context.api_version <= _EACH_FEATURE_TO else []
        results = [UpdatableFeatureResult(feature=name, error_message=None) for name in names]
        return UpdateFeaturesResponse(error_message=None, results=results)

    written = controller.update_features(updates, validate_only=request.validate_only)
    return written.map(lambda _: done(None), lambda problem: done(problem) if _is_ours(problem) else None)


def _is_ours(problem: errors.KafkaError) -> bool:
    return isinstance(problem, errors.InvalidUpdateVersionError)


def _upgrade_type(version: int, update: FeatureUpdateKey) -> int:
    if version > 0:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


def _alter_client_quotas(
    controller: QuorumController, context: ControllerRequestContext, request: AlterClientQuotasRequest
) -> Deferred[Message]:
    alter = controller.managers.quotas.alter_client_quotas

    def operation() -> ControllerResult[list[Outcome]]:
        found = alter(request.entries)
        return found.without_records() if request.validate_only else found

    def answer(outcomes: list[Outcome]) -> Message:
        entries = [
            EntryData(
                outcome.code, outcome.message, [EntityData(part.entity_type, part.entity_name) for part in asked.entity]
            )
            for asked, outcome in zip(request.entries, outcomes, strict=True)
        ]
        return AlterClientQuotasResponse(entries=entries)

    return controller.write(operation).map(answer)


def _create_acls(
    controller: QuorumController, context: ControllerRequestContext, request: CreateAclsRequest
) -> Deferred[Message]:
    acls = [AclBinding.of(one) for one in request.creations]
    written = controller.write(lambda: controller.managers.acls.create_acls(acls))
    return written.map(
        lambda outcomes: CreateAclsResponse(results=[AclCreationResult(*outcome) for outcome in outcomes])
    )


def _delete_acls(
    controller: QuorumController, context: ControllerRequestContext, request: DeleteAclsRequest
) -> Deferred[Message]:
    filters = [AclFilter.of(one) for one in request.filters]

    def answer(results: list[DeletedAcls]) -> Message:
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(*found.outcome, [DeleteAclsMatchingAcl(0, None, *acl) for acl in found.deleted])
                for found in results
            ]
        )

    return controller.write(lambda: controller.managers.acls.delete_acls(filters)).map(answer)


def _alter_scram(
    controller: QuorumController, context: ControllerRequestContext, request: AlterUserScramCredentialsRequest
) -> Deferred[Message]:
    written = controller.write(lambda: controller.managers.scram.alter_credentials(request))
    return written.map(
        lambda outcomes: AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user, outcome.code, outcome.message)
                for user, outcome in outcomes.items()
            ]
        )
    )


def _create_token(
    controller: QuorumController, context: ControllerRequestContext, request: CreateDelegationTokenRequest
) -> Deferred[Message]:
    return controller.write(lambda: controller.managers.tokens.create(context, request)).map(_as_message)


def _renew_token(
    controller: QuorumController, context: ControllerRequestContext, request: RenewDelegationTokenRequest
) -> Deferred[Message]:
    return controller.write(lambda: controller.managers.tokens.renew(context, request)).map(_as_message)


def _expire_token(
    controller: QuorumController, context: ControllerRequestContext, request: ExpireDelegationTokenRequest
) -> Deferred[Message]:
    return controller.write(lambda: controller.managers.tokens.expire(context, request)).map(_as_message)


def _as_message(response: Message) -> Message:
    return response


ANSWERS: dict[int, Answer] = {
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_scram,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire_token,
}
