"""A request that is to be authorized, and who asks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from barnabas import errors
from barnabas.broker.security.refusals import joined, refused, refused_elements
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.kinds import AclOperation, ResourceType

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message, Struct

R = TypeVar("R", bound="Message")

#: Changes the response of the handler; None is the response to who expects none.
Amend: TypeAlias = "Callable[[Any], Any]"
#: A response in place of the handler's; what changes the handler's; or None: there is nothing to object to.
Verdict: TypeAlias = "Message | Amend | None"

TOPIC_DENIED = errors.TopicAuthorizationError.code
GROUP_DENIED = errors.GroupAuthorizationError.code
CLUSTER_DENIED = errors.ClusterAuthorizationError.code
TRANSACTION_DENIED = errors.TransactionalIdAuthorizationError.code
CODES = {
    ResourceType.TOPIC: TOPIC_DENIED,
    ResourceType.GROUP: GROUP_DENIED,
    ResourceType.CLUSTER: CLUSTER_DENIED,
    ResourceType.TRANSACTIONAL_ID: TRANSACTION_DENIED,
}


class Asked(Generic[R]):
    """`may` and its kin ask the authorizer, `refuse` and `without` make of a denial what the client is told."""

    __slots__ = ("_authorization", "broker", "context", "request")

    def __init__(self, broker: BrokerState, context: RequestContext, request: R) -> None:
        assert broker.authorization is not None
        self._authorization = broker.authorization
        self.broker = broker
        self.context = context
        self.request = request

    def may(self, operation: AclOperation, kind: ResourceType, name: str, *, tell: bool = True) -> bool:
        """Whether who asks may do that to a resource."""
        return self._authorization.allows(self.context, operation, kind, name, tell=tell)

    def may_cluster(self, operation: AclOperation, *, tell: bool = True) -> bool:
        """Whether who asks may do that to the cluster."""
        return self._authorization.allows_cluster(self.context, operation, tell=tell)

    def may_any(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether who asks may do that to any resource of a kind."""
        return self._authorization.allows_any(self.context, operation, kind)

    def name_of(self, topic: Struct) -> str | None:
        """Return the name of a topic of the request; None where it has an id that no topic has."""
        id = getattr(topic, "topic_id", ZERO_UUID)
        if id != ZERO_UUID:
            found = self.broker.metadata.topic_by_id(id)
            return None if found is None else found.name
        name: str | None = getattr(topic, "name" if hasattr(topic, "name") else "topic")
        return name

    def may_topic(self, operation: AclOperation, topic: Struct) -> bool:
        """Whether who asks may do that to a topic of the request; what no topic is, the handler tells."""
        name = self.name_of(topic)
        return name is None or self.may(operation, ResourceType.TOPIC, name)

    def refuse(self, code: int) -> Message:
        """Return the response that refuses all."""
        return refused(self.request, self.context.api_version, code)

    def without(self, array: str, answers: str, allowed: Callable[[Any], bool], code: int) -> Verdict:
        """Leave the elements of an array out that are not allowed, and answer them in the array `answers`."""
        elements = getattr(self.request, array) or []
        there = [(one, allowed(one)) for one in elements]
        denied = [one for one, is_allowed in there if not is_allowed]
        if not denied:
            return None
        context, key = self.context, self.request.API_KEY
        refusals = refused_elements(key, context.api_version, answers, denied, code)
        setattr(self.request, array, [one for one, is_allowed in there if is_allowed])

        def amend(response: Message | None) -> Message | None:
            if response is not None:
                joined(response, answers, refusals, context.api_version)
            return response

        if len(denied) == len(elements):
            # Nothing is left to do, and to some handlers nothing means everything.
            empty = refused(self.request, context.api_version, 0)
            return amend(empty)
        return amend
