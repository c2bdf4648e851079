"""DeleteAcls: all ACLs that a filter means go (KIP-140).

Versions 1-3. v1 prefixed patterns (KIP-290). v2 flexible. v3 users as resources (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.security.acl_binding import NO_AUTHORIZER, AclBinding, AclFilter
from barnabas.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.delete_acls_request import DeleteAclsRequest

API = 31
VERSIONS = (1, 3)


def handle(
    broker: BrokerState, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse | DelayedOperation:
    """Each filter has its own result, with what it has found."""
    return broker.in_turn(lambda: _change(broker, request))


def _change(broker: BrokerState, request: DeleteAclsRequest) -> DeleteAclsResponse | DelayedOperation:
    authorization = broker.authorization
    if authorization is None:
        code, text = errors.SecurityDisabledError.code, NO_AUTHORIZER
        return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, text) for _ in request.filters])
    results = []
    going: dict[AclBinding, None] = {}
    for one in request.filters:
        result = DeleteAclsFilterResult(error_message=None)
        wanted = AclFilter.of(one)
        try:
            wanted.check()
            found = authorization.matching(wanted)
            going.update(dict.fromkeys(found))
            result.matching_acls = [DeleteAclsMatchingAcl(0, None, *acl) for acl in found]
        except errors.InvalidRequestError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)

    def answer(problem: errors.KafkaError | None) -> DeleteAclsResponse:
        if problem is not None:
            for result in results:
                if not result.error_code:
                    result.error_code, result.error_message = problem.code, str(problem)
                    result.matching_acls = []
        return DeleteAclsResponse(filter_results=results)

    if not going:
        return answer(None)
    return broker.commit(lambda done: authorization.delete(going, done), answer)
