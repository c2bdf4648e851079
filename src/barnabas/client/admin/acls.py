"""ACLs: who may do what to which resources (KIP-11, KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.admin.admin_api_handler import Outcome, Scope, StaticLookup
from barnabas.client.admin.requests import Answer, KeyedRequest, one_request
from barnabas.client.admin.results import Results
from barnabas.errors import KafkaError, for_code
from barnabas.protocol.kinds import (
    AUTHORIZED_OPERATIONS_NOT_REQUESTED,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from barnabas.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls_request import DescribeAclsRequest

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_acls_response import CreateAclsResponse
    from barnabas.protocol.messages.delete_acls_response import DeleteAclsMatchingAcl, DeleteAclsResponse
    from barnabas.protocol.messages.describe_acls_response import (
        AclDescription,
        DescribeAclsResource,
        DescribeAclsResponse,
    )


class AclBinding(NamedTuple):
    """One rule. `principal` is written as in `User:alice`; the name of the cluster resource is `kafka-cluster`."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL

    @property
    def is_unknown(self) -> bool:
        """Whether it has a part that a newer broker knows and this client does not."""
        return _has_unknown(self)

    def to_filter(self) -> AclBindingFilter:
        """Find this rule and no other."""
        return AclBindingFilter(*self)


class AclBindingFilter(NamedTuple):
    """Finds rules; what is ANY or None finds all."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether it has a part that a newer broker knows and this client does not."""
        return _has_unknown(self)

    def matches(self, acl: AclBinding) -> bool:
        """Whether it finds a rule, as a broker decides it."""
        return self._matches_name(acl) and all(
            wanted in (None, 1) or wanted == found
            for wanted, found in (
                (self.resource_type, acl.resource_type),
                (self.principal, acl.principal),
                (self.operation, acl.operation),
                (self.permission_type, acl.permission_type),
                (self.host, acl.host),
            )
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type != PatternType.MATCH or self.resource_name == acl.resource_name:
            return self.resource_name == acl.resource_name
        if acl.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.pattern_type == PatternType.LITERAL and acl.resource_name == "*"

    def find_indefinite_field(self) -> str | None:
        """Return the first of its parts that leaves open which rule is meant; None when it finds at most one."""
        open_patterns = (PatternType.UNKNOWN, PatternType.ANY, PatternType.MATCH)
        for name, value in zip(self._fields, self, strict=True):
            indefinite = open_patterns if name == "pattern_type" else (None, 0, 1)
            if value in indefinite:
                return name
        return None

    @property
    def matches_at_most_one(self) -> bool:
        """Whether it names all parts of a rule."""
        return self.find_indefinite_field() is None


def _has_unknown(acl: AclBinding | AclBindingFilter) -> bool:
    return 0 in (acl.resource_type, acl.operation, acl.permission_type, acl.pattern_type)


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """Return a bit field of KIP-430: bit n stands for operation n; None when it was not asked for."""
    if bits == AUTHORIZED_OPERATIONS_NOT_REQUESTED:
        return None
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)


def describe_acls(wanted: AclBindingFilter) -> KeyedRequest[str, list[AclBinding]]:
    """DescribeAcls, at any broker."""
    request = DescribeAclsRequest(**_filter_fields(wanted))

    def read(response: DescribeAclsResponse) -> list[AclBinding]:
        return [_binding(resource, acl) for resource in response.resources for acl in resource.acls]

    return one_request("describe_acls", lambda timeout_ms: request, read)


def _filter_fields(wanted: AclBindingFilter) -> dict[str, Any]:
    """Return the fields that a filter has in DescribeAcls and in DeleteAcls."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }


def _binding(
    resource: DescribeAclsResource | DeleteAclsMatchingAcl, acl: AclDescription | DeleteAclsMatchingAcl
) -> AclBinding:
    return AclBinding(
        ResourceType(resource.resource_type),
        resource.resource_name,
        acl.principal,
        AclOperation(acl.operation),
        AclPermissionType(acl.permission_type),
        acl.host,
        PatternType(resource.pattern_type),
    )


def create_acls() -> KeyedRequest[AclBinding, None]:
    """CreateAcls; the results come in the order of the request."""

    def build(keys: list[AclBinding], timeout_ms: int) -> CreateAclsRequest:
        return CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=key.resource_type,
                    resource_name=key.resource_name,
                    resource_pattern_type=key.pattern_type,
                    principal=key.principal,
                    host=key.host,
                    operation=key.operation,
                    permission_type=key.permission_type,
                )
                for key in keys
            ]
        )

    def answers(keys: list[AclBinding], response: CreateAclsResponse) -> Iterable[Answer[AclBinding, None]]:
        for key, result in zip(keys, response.results, strict=False):
            yield key, result.error_code, result.error_message, None

    return KeyedRequest("create_acls", StaticLookup(Scope.ANY), build, answers)


class DeleteAclsHandler:
    """DeleteAcls: for each filter the rules that were deleted; the results come in the order of the request."""

    name = "delete_acls"

    def __init__(self) -> None:
        self.lookup: StaticLookup[AclBindingFilter] = StaticLookup(Scope.ANY)

    def build_request(self, keys: list[AclBindingFilter], timeout_ms: int) -> DeleteAclsRequest:
        """See `AdminApiHandler`."""
        return DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter_fields(key)) for key in keys])

    def handle_response(
        self,
        keys: list[AclBindingFilter],
        response: DeleteAclsResponse,
        outcome: Outcome[AclBindingFilter, list[AclBinding]],
    ) -> None:
        """See `AdminApiHandler`; a rule that matches and cannot be deleted makes its filter fail.

        Nothing is asked again: by now some rules are gone, and a second answer would not name them.
        """
        for key, result in zip(keys, response.filter_results, strict=False):
            if not outcome.is_success(key, result.error_code, result.error_message):
                continue
            rules = [(_binding(acl, acl), acl) for acl in result.matching_acls]
            deleted = {rule: None for rule, acl in rules if not acl.error_code}
            stuck = {
                rule: for_code(acl.error_code, f"{rule}: {acl.error_message or for_code(acl.error_code)}")
                for rule, acl in rules
                if acl.error_code
            }
            try:
                Results(deleted, stuck).raise_errors()
                outcome.complete(key, list(deleted))
            except KafkaError as error:
                outcome.fail(key, error)
