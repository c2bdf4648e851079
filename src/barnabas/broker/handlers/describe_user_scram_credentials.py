"""DescribeUserScramCredentials: who can log in by SCRAM, and by which mechanisms (KIP-554).

Versions 0.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.security.scram_users import ScramUsers
from barnabas.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest

API = 50
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe the users asked for, or all; nothing of what is secret."""
    users = ScramUsers(broker.metadata)
    asked = Counter([user.name for user in request.users or ()] or users.names())
    results = [_result(users, name, count) for name, count in asked.items()]
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _result(users: ScramUsers, name: str, count: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=name, error_message=None)
    found = users.iterations(name)
    if count > 1:
        result.error_code = errors.DuplicateResourceError.code
        result.error_message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif not found:
        result.error_code = errors.ResourceNotFoundError.code
        result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
    else:
        result.credential_infos = [CredentialInfo(mechanism, iterations) for mechanism, iterations in found.items()]
    return result
