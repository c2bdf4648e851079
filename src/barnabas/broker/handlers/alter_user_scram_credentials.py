"""AlterUserScramCredentials: users of SCRAM and their passwords, which come salted and hashed already (KIP-554).

Versions 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from barnabas import errors
from barnabas.broker.security.scram_users import MECHANISMS, MOST_ITERATIONS, ScramUsers
from barnabas.network.security.scram import FEWEST_ITERATIONS, StoredCredential, stored_credential
from barnabas.protocol.messages.alter_user_scram_credentials_request import ScramCredentialUpsertion
from barnabas.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.alter_user_scram_credentials_request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
    )

API = 51
VERSIONS = (0, 0)

Changes: TypeAlias = dict[tuple[str, str], StoredCredential | None]
Answer: TypeAlias = Callable[[errors.KafkaError | None], AlterUserScramCredentialsResponse]
#: A longer name is refused: the metadata keeps it.
_LONGEST_NAME = 1024


def handle(
    broker: BrokerState, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse | DelayedOperation:
    """Change each user once at most; what can be changed is changed in one commit."""
    return broker.in_turn(lambda: _change(broker, context, request))


def _change(
    broker: BrokerState, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse | DelayedOperation:
    if context.connection.is_token_authenticated:
        # KIP-48: a client that authenticated by a token gets no other credential by it.
        return _refused(request, errors.UnsupportedByAuthenticationError.code)
    users = ScramUsers(broker.metadata)
    changes, answer = planned(users, request)
    return broker.commit(lambda done: users.alter(changes, done), answer) if changes else answer(None)


def planned(users: ScramUsers, request: AlterUserScramCredentialsRequest) -> tuple[Changes, Answer]:
    """Return what is to be stored by user and mechanism, each user once at most, and the answer when it is."""
    asked: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    times = Counter(one.name for one in asked)
    changes: Changes = {}
    results: dict[str, AlterUserScramCredentialsResult] = {}
    for one in asked:
        result = results.setdefault(one.name, AlterUserScramCredentialsResult(user=one.name, error_message=None))
        try:
            if times[one.name] > 1:
                raise errors.DuplicateResourceError("A user credential cannot be altered twice in the same request")
            changes[one.name, MECHANISMS.get(one.mechanism, "")] = _planned_credential(users, one)
        except errors.KafkaError as problem:
            result.error_code, result.error_message = problem.code, str(problem)

    def answer(problem: errors.KafkaError | None) -> AlterUserScramCredentialsResponse:
        for result in results.values():
            if problem is not None and not result.error_code:
                result.error_code, result.error_message = problem.code, str(problem)
        return AlterUserScramCredentialsResponse(results=list(results.values()))

    return changes, answer


def _planned_credential(
    users: ScramUsers, one: ScramCredentialDeletion | ScramCredentialUpsertion
) -> StoredCredential | None:
    """Return what is to be stored; None for what is to go. Raises KafkaError, as Kafka's ScramControlManager does."""
    if not one.name:
        raise errors.UnacceptableCredentialError("Username must not be empty")
    if len(one.name) > _LONGEST_NAME:
        raise errors.UnacceptableCredentialError(f"Username has more than {_LONGEST_NAME} characters")
    mechanism = MECHANISMS.get(one.mechanism)
    if mechanism is None:
        raise errors.UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    if not isinstance(one, ScramCredentialUpsertion):
        if one.mechanism not in users.iterations(one.name):
            raise errors.ResourceNotFoundError("Attempt to delete a user credential that does not exist")
        return None
    if one.iterations < FEWEST_ITERATIONS:
        raise errors.UnacceptableCredentialError("Too few iterations")
    if one.iterations > MOST_ITERATIONS:
        raise errors.UnacceptableCredentialError("Too many iterations")
    return stored_credential(mechanism, one.salted_password, bytes(one.salt), one.iterations)


def _refused(request: AlterUserScramCredentialsRequest, code: int) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys([*(one.name for one in request.deletions), *(one.name for one in request.upsertions)])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=name, error_code=code, error_message=None) for name in names]
    )
