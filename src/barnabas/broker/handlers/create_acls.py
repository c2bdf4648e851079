"""CreateAcls: who may do what, from now on (KIP-140).

Versions 1-3. v1 prefixed patterns (KIP-290). v2 flexible. v3 users as resources (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.security.acl_binding import NO_AUTHORIZER, AclBinding
from barnabas.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.create_acls_request import CreateAclsRequest

API = 30
VERSIONS = (1, 3)


def handle(
    broker: BrokerState, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse | DelayedOperation:
    """Each has its own result; one that is there already is created once more without effect."""
    return broker.in_turn(lambda: _change(broker, request))


def _change(broker: BrokerState, request: CreateAclsRequest) -> CreateAclsResponse | DelayedOperation:
    authorization = broker.authorization
    if authorization is None:
        code, text = errors.SecurityDisabledError.code, NO_AUTHORIZER
        return CreateAclsResponse(results=[AclCreationResult(code, text) for _ in request.creations])
    results, planned = [], []
    for one in request.creations:
        result = AclCreationResult(error_message=None)
        acl = AclBinding.of(one)
        try:
            acl.check()
            planned.append((acl, result))
        except errors.InvalidRequestError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)

    def answer(problem: errors.KafkaError | None) -> CreateAclsResponse:
        for _, result in planned:
            if problem is not None:
                result.error_code, result.error_message = problem.code, str(problem)
        return CreateAclsResponse(results=results)

    if not planned:
        return answer(None)
    return broker.commit(lambda done: authorization.create([acl for acl, _ in planned], done), answer)
