"""ACLs, SCRAM credentials and delegation tokens: what is asked, what the answers mean, what is never shown."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from barnabas.client.admin.acls import AclBinding, AclBindingFilter
from barnabas.client.admin.scram import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from barnabas.errors import (
    IllegalArgumentError,
    SecurityDisabledError,
    UnacceptableCredentialError,
    UnsupportedVersionError,
)
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kinds import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse
from barnabas.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from barnabas.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from barnabas.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from barnabas.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from barnabas.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from tests.support.network_fakes import all_api_versions

SECURITY_DISABLED, UNACCEPTABLE = 54, 93
READ = AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.READ)
WRITE = AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.WRITE)


def test_rules_that_are_created_have_their_results_in_the_order_of_the_request(admin: Any) -> None:
    admin.answer(
        ApiKey.CREATE_ACLS,
        CreateAclsResponse(results=[AclCreationResult(), AclCreationResult(error_code=54, error_message="no")]),
    )
    results = admin.client.create_acls([READ, WRITE], raise_errors=False)
    assert list(results) == [READ]
    assert isinstance(results.errors[WRITE], SecurityDisabledError)


def test_a_rule_that_cannot_be_deleted_fails_its_filter(admin: Any) -> None:
    match = DeleteAclsMatchingAcl(
        resource_type=2, resource_name="t", pattern_type=3, principal="User:alice", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    stuck = DeleteAclsMatchingAcl(
        error_code=SECURITY_DISABLED, resource_type=2, resource_name="t", pattern_type=3, principal="User:alice",
        host="*", operation=4, permission_type=3,
    )  # fmt: skip
    answers = [DeleteAclsFilterResult(matching_acls=[match]), DeleteAclsFilterResult(matching_acls=[match, stuck])]
    admin.answer(ApiKey.DELETE_ACLS, DeleteAclsResponse(filter_results=answers))
    good, bad = AclBindingFilter(operation=AclOperation.READ), AclBindingFilter()
    results = admin.client.delete_acls([good, bad], raise_errors=False)
    assert results[good] == [READ]
    error: Any = results.errors[bad]
    assert isinstance(error, SecurityDisabledError)
    assert "User:alice" in str(error)
    assert (list(error.results), list(error.errors)) == ([READ], [READ._replace(operation=AclOperation.WRITE)])
    with pytest.raises(SecurityDisabledError) as raised:
        admin.client.delete_acls([good, bad])
    assert raised.value.results == error.results


def test_a_password_leaves_only_salted(admin: Any) -> None:
    admin.answer(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user="alice"),
                AlterUserScramCredentialsResult(user="bob", error_code=UNACCEPTABLE, error_message="weak"),
            ]
        ),
    )
    upsertion = UserScramCredentialUpsertion("alice", "secret", ScramMechanism.SCRAM_SHA_512, 4096, b"salt")
    deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)
    results = admin.client.alter_user_scram_credentials([upsertion, deletion], raise_errors=False)
    assert list(results) == ["alice"]
    assert isinstance(results.errors["bob"], UnacceptableCredentialError)
    (request,) = admin.requests(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    assert request.upsertions[0].salted_password == hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 4096)
    assert request.deletions[0].name == "bob"
    assert "secret" not in repr(upsertion)


def test_the_salt_is_another_one_each_time(admin: Any) -> None:
    answer = AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user="alice")])
    admin.answer(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, answer)
    for _ in range(2):
        admin.client.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", "secret")])
    first, second = admin.requests(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    assert first.upsertions[0].salt != second.upsertions[0].salt


@pytest.mark.parametrize("bad", [{"mechanism": ScramMechanism.UNKNOWN}, {"iterations": 0}])
def test_what_no_broker_would_take_is_refused(admin: Any, bad: dict[str, Any]) -> None:
    with pytest.raises(IllegalArgumentError) as raised:
        admin.client.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", "secret", **bad)])
    assert "'secret'" not in str(raised.value)


def test_a_token_is_made_and_keeps_its_secret(admin: Any) -> None:
    answer = CreateDelegationTokenResponse(
        principal_type="User", principal_name="alice", token_requester_principal_type="User",
        token_requester_principal_name="admin", issue_timestamp_ms=1, expiry_timestamp_ms=2, max_timestamp_ms=3,
        token_id="id", hmac=b"secret",
    )  # fmt: skip
    admin.answer(ApiKey.CREATE_DELEGATION_TOKEN, answer)
    token = admin.client.create_delegation_token(owner="User:alice", renewers=["User:bob"], max_lifetime=60)
    assert (token.token_id, token.hmac, token.owner, token.requester) == ("id", b"secret", "User:alice", "User:admin")
    assert "secret" not in repr(token)
    (request,) = admin.requests(ApiKey.CREATE_DELEGATION_TOKEN)
    assert (request.owner_principal_name, request.max_lifetime_ms) == ("alice", 60_000)
    assert request.renewers[0].principal_name == "bob"

    admin.answer(ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenResponse(expiry_timestamp_ms=9))
    assert token.hmac_as_base64_string == "c2VjcmV0"
    assert admin.client.renew_delegation_token(token.hmac) == 9
    assert admin.requests(ApiKey.RENEW_DELEGATION_TOKEN)[0].renew_period_ms == -1


def test_tokens_are_described(admin: Any) -> None:
    described = DescribedDelegationToken(
        principal_type="User", principal_name="alice", issue_timestamp=1, expiry_timestamp=2, max_timestamp=3,
        token_id="id", hmac=b"secret",
        renewers=[DescribedDelegationTokenRenewer(principal_type="User", principal_name="bob")],
    )  # fmt: skip
    admin.answer(ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenResponse(tokens=[described]))
    (token,) = admin.client.describe_delegation_token(["User:alice"])
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "", ("User:bob",))
    with pytest.raises(IllegalArgumentError, match="User:alice"):
        admin.client.describe_delegation_token(["alice"])


def test_what_the_broker_does_not_offer_names_api_and_broker(admin: Any) -> None:
    everything = all_api_versions()
    known = [api for api in everything.api_keys if api.api_key != ApiKey.DESCRIBE_ACLS]
    admin.handlers[ApiKey.API_VERSIONS] = lambda request: ApiVersionsResponse(api_keys=known)
    with pytest.raises(UnsupportedVersionError, match=r"describe_acls at (one|two):9092 .*DESCRIBE_ACLS"):
        admin.client.describe_acls()


RULE = AclBinding(ResourceType.TOPIC, "flights", "User:alice", AclOperation.READ)


@pytest.mark.parametrize(
    ("rule", "wanted", "found"),
    [
        (RULE, AclBindingFilter(), True),
        (RULE, RULE.to_filter(), True),
        (RULE, AclBindingFilter(ResourceType.GROUP), False),
        (RULE, AclBindingFilter(principal="User:bob"), False),
        (RULE, AclBindingFilter(operation=AclOperation.WRITE), False),
        (RULE, AclBindingFilter(permission_type=AclPermissionType.DENY), False),
        (RULE, AclBindingFilter(host="10.0.0.1"), False),
        (RULE, AclBindingFilter(resource_name="fl"), False),
        (RULE, AclBindingFilter(resource_name="flights", pattern_type=PatternType.PREFIXED), False),
        (RULE, AclBindingFilter(resource_name="flights", pattern_type=PatternType.MATCH), True),
        (RULE._replace(resource_name="*"), AclBindingFilter(resource_name="x", pattern_type=PatternType.MATCH), True),
        (RULE._replace(resource_name="*"), AclBindingFilter(resource_name="x"), False),
        (
            RULE._replace(resource_name="fl", pattern_type=PatternType.PREFIXED),
            AclBindingFilter(resource_name="flights", pattern_type=PatternType.MATCH),
            True,
        ),
        (
            RULE._replace(resource_name="flights", pattern_type=PatternType.PREFIXED),
            AclBindingFilter(resource_name="fl", pattern_type=PatternType.MATCH),
            False,
        ),
    ],
)
def test_a_filter_finds_rules_as_a_broker_does(rule: AclBinding, wanted: AclBindingFilter, found: bool) -> None:
    assert wanted.matches(rule) is found


def test_a_filter_that_names_everything_finds_at_most_one_rule() -> None:
    assert RULE.to_filter().matches_at_most_one
    for name, value in AclBindingFilter()._asdict().items():
        assert RULE.to_filter()._replace(**{name: value}).find_indefinite_field() == name


def test_what_a_newer_broker_knows_is_unknown_here() -> None:
    assert AclOperation(99) is AclOperation.UNKNOWN
    assert RULE._replace(operation=AclOperation(99)).is_unknown
    assert AclBindingFilter(ResourceType(99)).is_unknown
    assert not RULE.is_unknown
