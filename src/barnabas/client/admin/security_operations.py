"""What an admin client does about who may do what: ACLs, SCRAM credentials, delegation tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.client.admin import delegation_tokens
from barnabas.client.admin.acls import (
    AclBinding,
    AclBindingFilter,
    DeleteAclsHandler,
    create_acls,
    describe_acls,
)
from barnabas.client.admin.admin_operations import AdminOperations, checked
from barnabas.client.admin.delegation_tokens import DelegationToken
from barnabas.client.admin.results import Results
from barnabas.client.admin.scram import (
    DescribeScramHandler,
    ScramAlteration,
    ScramCredentialInfo,
    alter_scram,
    credentials,
)
from barnabas.client.arguments import as_keys, as_texts
from barnabas.client.steps import Steps
from barnabas.errors import KafkaError, for_code

_ANY_ACL = AclBindingFilter()


class SecurityOperations(AdminOperations):
    """ACLs, credentials and tokens."""

    def describe_acls(
        self, acl_filter: AclBindingFilter = _ANY_ACL, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """Return the rules that match a filter; without one all of them.

        Raises `SecurityDisabledError` (the broker has no authorizer), `ClusterAuthorizationError`, ...

        """
        return self._run_one(describe_acls(acl_filter), "ACLs", timeout)

    def create_acls(
        self, acls: Iterable[AclBinding], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[AclBinding, None]:
        """Add rules; one that there is already stays.

        Raises `SecurityDisabledError`, `InvalidRequestError`, `ClusterAuthorizationError`, ...

        """
        return self._run(create_acls(), as_keys(acls, "acls"), timeout, raise_errors)

    def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[AclBindingFilter, list[AclBinding]]:
        """Delete the rules that match any of the filters; return for each filter which ones that were.

        A rule that cannot be deleted makes its filter fail: that error's `errors` has such rules, and its `results`
        those that were deleted.
        """
        return self._run(DeleteAclsHandler(), as_keys(filters, "filters"), timeout, raise_errors)

    def describe_user_scram_credentials(
        self, users: Sequence[str] | None = None, *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, list[ScramCredentialInfo]]:
        """Return the SCRAM credentials of users, of all that have some by default; nothing secret is told.

        Raises `ResourceNotFoundError` (the user has none), `DuplicateResourceError`,
        `ClusterAuthorizationError`, ...

        """
        return self._complete(self._describe_scram(users, timeout, raise_errors))

    def _describe_scram(
        self, users: Sequence[str] | None, timeout: float | None, raise_errors: bool
    ) -> Steps[Results[str, list[ScramCredentialInfo]]]:
        asked = None if users is None else as_texts(users, "users")
        found = yield from self._ask_one(DescribeScramHandler(asked), "users", self._deadline(timeout))
        values: dict[str, list[ScramCredentialInfo]] = {}
        errors: dict[str, KafkaError] = {}
        for user, result in found.items():
            if result.error_code:
                text = result.error_message or for_code(result.error_code)
                errors[user] = for_code(result.error_code, f"{user}: {text}")
            else:
                values[user] = credentials(result)
        return checked(Results(values, errors), raise_errors)

    def alter_user_scram_credentials(
        self, alterations: Iterable[ScramAlteration], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, None]:
        """Give users SCRAM credentials and take them away; by user. The password does not leave this process.

        Raises `UnacceptableCredentialError`, `UnsupportedSaslMechanismError`, `ResourceNotFoundError`, ...

        """
        users, handler = alter_scram(alterations)
        return self._run(handler, users, timeout, raise_errors)

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime: float | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        """Make a token for the caller, or for `owner`. Principals are written as in `User:alice`.

        `max_lifetime` is in seconds; by default, and at most, it is the broker's `delegation.token.max.lifetime.ms`.

        Raises `DelegationTokenDisabledError`, `UnsupportedByAuthenticationError` (not over an authenticated
        connection, or over one that a token authenticated), ...

        """
        return self._run_one(delegation_tokens.create_token(owner, renewers, max_lifetime), "delegation token", timeout)

    def renew_delegation_token(
        self, hmac: bytes, *, renew_period: float | None = None, timeout: float | None = None
    ) -> int:
        """Let a token live `renew_period` seconds from now; return its new expiry time in epoch milliseconds.

        Raises `DelegationTokenNotFoundError`, `DelegationTokenExpiredError`,
        `DelegationTokenOwnerMismatchError`, ...

        """
        return self._run_one(delegation_tokens.renew_token(hmac, renew_period), "delegation token", timeout)

    def expire_delegation_token(
        self, hmac: bytes, *, expiry_period: float | None = None, timeout: float | None = None
    ) -> int:
        """Let a token end `expiry_period` seconds from now, or at once.

        Gives its new expiry time in epoch milliseconds.
        """
        return self._run_one(delegation_tokens.expire_token(hmac, expiry_period), "delegation token", timeout)

    def describe_delegation_token(
        self, owners: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of these owners, or all that the caller may see."""
        return self._run_one(delegation_tokens.describe_tokens(owners), "delegation tokens", timeout)
