"""One ACL, and filters of them (KIP-11, KIP-290)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.protocol.kinds import AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_acls_request import AclCreation
    from barnabas.protocol.messages.delete_acls_request import DeleteAclsFilter
    from barnabas.protocol.messages.describe_acls_request import DescribeAclsRequest

ANY_NAME = "*"
CLUSTER_NAME = "kafka-cluster"
EVERYBODY = "User:*"
_KINDS = frozenset(kind for kind in ResourceType if kind not in (ResourceType.UNKNOWN, ResourceType.ANY))
_OPERATIONS = frozenset(one for one in AclOperation if one not in (AclOperation.UNKNOWN, AclOperation.ANY))
#: A longer name or principal is refused: the metadata keeps it.
_LONGEST_TEXT = 4096
#: What those are told who ask about ACLs where nothing decides by them, in Kafka's words.
NO_AUTHORIZER = "No Authorizer is configured on the broker"


class AclBinding(NamedTuple):
    """Who may, or may not, do what to which resources; numbers as in the protocol."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    @classmethod
    def of(cls, asked: AclCreation) -> AclBinding:
        """Return the one that a CreateAcls request names."""
        return cls(
            asked.resource_type,
            asked.resource_name,
            asked.resource_pattern_type,
            asked.principal,
            asked.host,
            asked.operation,
            asked.permission_type,
        )

    def check(self) -> None:
        """Whether it can be stored. Raises InvalidRequestError, as Kafka's AclApis and AclControlManager do."""
        if self.resource_type == ResourceType.CLUSTER and self.resource_name != CLUSTER_NAME:
            raise errors.InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
        if not self.resource_name:
            raise errors.InvalidRequestError("Invalid empty resource name")
        for what, value, allowed in (
            ("resourceType", self.resource_type, _KINDS),
            ("patternType", self.pattern_type, (PatternType.LITERAL, PatternType.PREFIXED)),
            ("operation", self.operation, _OPERATIONS),
            ("permissionType", self.permission, (AclPermissionType.ALLOW, AclPermissionType.DENY)),
        ):
            if value not in allowed:
                raise errors.InvalidRequestError(f"Invalid {what} {value}")
        if ":" not in self.principal:
            raise errors.InvalidRequestError(
                f"Could not parse principal from `{self.principal}` (no colon is present separating the principal "
                "type from the principal name)"
            )
        if any(len(text) > _LONGEST_TEXT for text in (self.resource_name, self.principal, self.host)):
            raise errors.InvalidRequestError(f"Names in ACLs have at most {_LONGEST_TEXT} characters")


class AclFilter(NamedTuple):
    """Which ACLs are meant: None and ANY let everything through; numbers as in the protocol."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @classmethod
    def of(cls, asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
        """Return the one that a request names."""
        return cls(
            asked.resource_type_filter,
            asked.resource_name_filter,
            asked.pattern_type_filter,
            asked.principal_filter,
            asked.host_filter,
            asked.operation,
            asked.permission_type,
        )

    def check(self) -> None:
        """Whether it makes sense. Raises InvalidRequestError."""
        for what, value, known in (
            ("resourceType", self.resource_type, ResourceType),
            ("patternType", self.pattern_type, PatternType),
            ("operation", self.operation, AclOperation),
            ("permissionType", self.permission, AclPermissionType),
        ):
            if value not in tuple(known) or value == 0:
                raise errors.InvalidRequestError(f"Invalid {what} {value}")

    def matches(self, acl: AclBinding) -> bool:
        """Whether an ACL is meant."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermissionType.ANY, acl.permission)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == ANY_NAME
