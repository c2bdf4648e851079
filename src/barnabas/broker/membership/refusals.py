"""Responses to requests that the controller did not answer: an error for all that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.protocol.api import response_class
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import (
    alter_client_quotas_response,
    alter_configs_response,
    alter_user_scram_credentials_response,
    create_acls_response,
    create_partitions_response,
    create_topics_response,
    delete_acls_response,
    delete_topics_response,
    incremental_alter_configs_response,
)

if TYPE_CHECKING:
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
    from barnabas.protocol.messages.alter_configs_request import AlterConfigsRequest
    from barnabas.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
    from barnabas.protocol.messages.create_acls_request import CreateAclsRequest
    from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest
    from barnabas.protocol.messages.create_topics_request import CreateTopicsRequest
    from barnabas.protocol.messages.delete_acls_request import DeleteAclsRequest
    from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest
    from barnabas.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

T = TypeVar("T")


def refused(request: Message, code: int) -> Message:
    """Return the response to a request in which all has failed with an error."""
    refuse = _REFUSE.get(request.API_KEY)
    if refuse is not None:
        return refuse(request, code)
    return response_class(request.API_KEY)(error_code=code)  # type: ignore[call-arg]  # all others have one


def _create_topics(request: CreateTopicsRequest, code: int) -> Message:
    result = create_topics_response.CreatableTopicResult
    topics = [result(name=topic.name, error_code=code) for topic in request.topics]
    return create_topics_response.CreateTopicsResponse(topics=topics)


def _delete_topics(request: DeleteTopicsRequest, code: int) -> Message:
    result = delete_topics_response.DeletableTopicResult
    by_name = [result(name=name, error_code=code) for name in request.topic_names]
    by_state = [result(name=state.name, topic_id=state.topic_id, error_code=code) for state in request.topics]
    return delete_topics_response.DeleteTopicsResponse(responses=by_state or by_name)


def _create_partitions(request: CreatePartitionsRequest, code: int) -> Message:
    result = create_partitions_response.CreatePartitionsTopicResult
    results = [result(name=topic.name, error_code=code) for topic in request.topics]
    return create_partitions_response.CreatePartitionsResponse(results=results)


def _alter_configs(request: AlterConfigsRequest, code: int) -> Message:
    result = alter_configs_response.AlterConfigsResourceResponse
    return alter_configs_response.AlterConfigsResponse(responses=_settings(request, code, result))


def _incremental_alter_configs(request: IncrementalAlterConfigsRequest, code: int) -> Message:
    result = incremental_alter_configs_response.AlterConfigsResourceResponse
    return incremental_alter_configs_response.IncrementalAlterConfigsResponse(
        responses=_settings(request, code, result)
    )


def _settings(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest, code: int, result: Callable[..., T]
) -> list[T]:
    return [
        result(error_code=code, resource_type=one.resource_type, resource_name=one.resource_name)
        for one in request.resources
    ]


def _alter_client_quotas(request: AlterClientQuotasRequest, code: int) -> Message:
    entity, entry = alter_client_quotas_response.EntityData, alter_client_quotas_response.EntryData
    entries = [
        entry(error_code=code, entity=[entity(part.entity_type, part.entity_name) for part in asked.entity])
        for asked in request.entries
    ]
    return alter_client_quotas_response.AlterClientQuotasResponse(entries=entries)


def _create_acls(request: CreateAclsRequest, code: int) -> Message:
    results = [create_acls_response.AclCreationResult(error_code=code) for _ in request.creations]
    return create_acls_response.CreateAclsResponse(results=results)


def _delete_acls(request: DeleteAclsRequest, code: int) -> Message:
    results = [delete_acls_response.DeleteAclsFilterResult(error_code=code) for _ in request.filters]
    return delete_acls_response.DeleteAclsResponse(filter_results=results)


def _alter_scram(request: AlterUserScramCredentialsRequest, code: int) -> Message:
    result = alter_user_scram_credentials_response.AlterUserScramCredentialsResult
    asked = (*(one.name for one in request.deletions), *(one.name for one in request.upsertions))
    return alter_user_scram_credentials_response.AlterUserScramCredentialsResponse(
        results=[result(user=name, error_code=code) for name in dict.fromkeys(asked)]
    )


# A row takes the request of its API; only the table does not tell them apart.
_REFUSE: dict[int, Callable[[Any, int], Message]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_scram,
}
