"""The SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.admin_api_handler import Outcome, Scope, StaticLookup
from barnabas.client.admin.requests import Answer, KeyedRequest
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from barnabas.protocol.protocol_enum import ProtocolEnum

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
    from barnabas.protocol.messages.describe_user_scram_credentials_response import (
        DescribeUserScramCredentialsResponse,
        DescribeUserScramCredentialsResult,
    )


class ScramMechanism(ProtocolEnum):
    """The mechanisms, with the numbers of the protocol."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredentialInfo(NamedTuple):
    """A credential that a user has, without anything secret."""

    mechanism: ScramMechanism
    iterations: int


class UserScramCredentialUpsertion(NamedTuple):
    """Gives a user a password. Brokers take 4096 to 16384 iterations; without `salt` it is random."""

    user: str
    password: str | bytes
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256
    iterations: int = 4096
    salt: bytes | None = None

    def __repr__(self) -> str:
        return (
            f"UserScramCredentialUpsertion({self.user!r}, password=<hidden>, {self.mechanism.name}, {self.iterations})"
        )


class UserScramCredentialDeletion(NamedTuple):
    """Takes the credential of a mechanism from a user."""

    user: str
    mechanism: ScramMechanism


ScramAlteration = UserScramCredentialUpsertion | UserScramCredentialDeletion


class DescribeScramHandler:
    """DescribeUserScramCredentials, at any broker; the key None stands for all users."""

    name = "describe_user_scram_credentials"

    def __init__(self, users: Sequence[str] | None) -> None:
        self.lookup: StaticLookup[str] = StaticLookup(Scope.ANY)
        self._users = users

    def build_request(self, keys: list[str], timeout_ms: int) -> DescribeUserScramCredentialsRequest:
        """See `AdminApiHandler`."""
        # All users are asked for by an empty list: where it is null, Kafka's brokers cannot say that one may not (they
        # close the connection instead).
        users = [UserName(name=user) for user in self._users or ()]
        return DescribeUserScramCredentialsRequest(users=users)

    def handle_response(
        self,
        keys: list[str],
        response: DescribeUserScramCredentialsResponse,
        outcome: Outcome[str, dict[str, DescribeUserScramCredentialsResult]],
    ) -> None:
        """See `AdminApiHandler`; gives each user's error code, message and credentials."""
        if outcome.is_success(keys[0], response.error_code, response.error_message):
            outcome.complete(keys[0], {result.user: result for result in response.results})


def credentials(result: DescribeUserScramCredentialsResult) -> list[ScramCredentialInfo]:
    """Return what a response says of a user."""
    return [ScramCredentialInfo(ScramMechanism(info.mechanism), info.iterations) for info in result.credential_infos]


def alter_scram(alterations: Iterable[ScramAlteration]) -> tuple[list[str], KeyedRequest[str, None]]:
    """AlterUserScramCredentials, at the controller, and its keys: the users."""
    by_user: dict[str, list[ScramCredentialDeletion | ScramCredentialUpsertion]] = {}
    for alteration in alterations:
        prepared = _deletion(alteration) if isinstance(alteration, UserScramCredentialDeletion) else _salted(alteration)
        by_user.setdefault(alteration.user, []).append(prepared)

    def build(keys: list[str], timeout_ms: int) -> AlterUserScramCredentialsRequest:
        wanted = [change for key in keys for change in by_user[key]]
        return AlterUserScramCredentialsRequest(
            deletions=[change for change in wanted if isinstance(change, ScramCredentialDeletion)],
            upsertions=[change for change in wanted if isinstance(change, ScramCredentialUpsertion)],
        )

    def answers(keys: list[str], response: AlterUserScramCredentialsResponse) -> Iterable[Answer[str, None]]:
        for result in response.results:
            yield result.user, result.error_code, result.error_message, None

    return list(by_user), KeyedRequest("alter_user_scram_credentials", StaticLookup(Scope.CONTROLLER), build, answers)


def _deletion(alteration: UserScramCredentialDeletion) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=alteration.user, mechanism=alteration.mechanism)


def _salted(alteration: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    """Return what the broker is told instead of the password: Hi(password, salt, iterations) of RFC 5802."""
    from barnabas.network.security.scram import SALT_BYTES, salted_password

    if alteration.mechanism not in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        raise IllegalArgumentError(f"{alteration!r}: the mechanism must be SCRAM_SHA_256 or SCRAM_SHA_512")
    if alteration.iterations < 1:
        raise IllegalArgumentError(f"{alteration!r}: iterations must be positive")
    salt = secrets.token_bytes(SALT_BYTES) if alteration.salt is None else alteration.salt
    password = alteration.password.encode() if isinstance(alteration.password, str) else alteration.password
    salted = salted_password(alteration.mechanism.name.replace("_", "-"), password, salt, alteration.iterations)
    return ScramCredentialUpsertion(
        name=alteration.user,
        mechanism=alteration.mechanism,
        iterations=alteration.iterations,
        salt=salt,
        salted_password=salted,
    )
