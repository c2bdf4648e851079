"""DescribeAcls: the ACLs that a filter means (KIP-140).

Versions 1-3. v1 prefixed patterns (KIP-290). v2 flexible. v3 users as resources (KIP-373).
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.security.acl_binding import NO_AUTHORIZER, AclFilter
from barnabas.protocol.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.describe_acls_request import DescribeAclsRequest

API = 29
VERSIONS = (1, 3)


def handle(broker: BrokerState, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return them by resource."""
    if broker.authorization is None:
        problem: errors.KafkaError = errors.SecurityDisabledError(NO_AUTHORIZER)
        return DescribeAclsResponse(error_code=problem.code, error_message=str(problem))
    wanted = AclFilter.of(request)
    try:
        wanted.check()
    except errors.InvalidRequestError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=str(error))
    found = sorted(broker.authorization.matching(wanted))
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=resource[0],
                resource_name=resource[1],
                pattern_type=resource[2],
                acls=[AclDescription(acl.principal, acl.host, acl.operation, acl.permission) for acl in acls],
            )
            for resource, acls in groupby(found, key=lambda acl: acl[:3])
        ],
    )
