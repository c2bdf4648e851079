"""The rules of requests about settings: each resource by its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.broker.security.authorizable_request import CODES, Asked, Verdict
from barnabas.broker.security.refusals import joined, refused_elements
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ConfigResourceType, ResourceType

if TYPE_CHECKING:
    from barnabas.broker.membership.forwarding import SettingsRequest
    from barnabas.protocol.message import Message

#: Kind of resource with settings → kind of resource with ACLs; all others are the cluster's.
_KINDS = {ConfigResourceType.TOPIC: ResourceType.TOPIC, ConfigResourceType.GROUP: ResourceType.GROUP}


def describe_configs(asked: Asked[SettingsRequest]) -> Verdict:
    """Refuse the resources whose settings may not be seen."""
    return _each(asked, Op.DESCRIBE_CONFIGS, "results")


def alter_configs(asked: Asked[SettingsRequest]) -> Verdict:
    """Refuse the resources whose settings may not be changed."""
    return _each(asked, Op.ALTER_CONFIGS, "responses")


def _each(asked: Asked[SettingsRequest], operation: Op, answers: str) -> Verdict:
    verdict: Verdict = None
    refusals: list[Any] = []
    allowed: list[Any] = []
    version = asked.context.api_version
    for resource in asked.request.resources:
        kind = _KINDS.get(ConfigResourceType(resource.resource_type), ResourceType.CLUSTER)
        if kind == ResourceType.CLUSTER:
            may = asked.may_cluster(operation)
        else:
            may = asked.may(operation, kind, resource.resource_name)
        if may:
            allowed.append(resource)
        else:
            refusals += refused_elements(asked.request.API_KEY, version, answers, [resource], CODES[kind])
    if not refusals:
        return verdict
    asked.request.resources = allowed

    def amend(response: Message) -> Message:
        joined(response, answers, refusals, version)
        return response

    return amend
