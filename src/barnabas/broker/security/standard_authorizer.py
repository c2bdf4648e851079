"""Kafka's StandardAuthorizer: who may do what, by ACLs.

A super user may everything. Else, of the ACLs that fit resource, principal and host, one that denies beats all that
allow, in any order and with any patterns. READ, WRITE, DELETE and ALTER that are allowed imply DESCRIBE, ALTER_CONFIGS
implies DESCRIBE_CONFIGS; what is denied implies nothing. Where no ACL fits the resource at all,
`allow.everyone.if.no.acl.found` decides. Source: KIP-11, KIP-290, KIP-801.

A decision asks one dict for each character of the resource's name, for any number of ACLs; the last ones are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.broker.security.acl_binding import ANY_NAME, EVERYBODY, AclBinding
from barnabas.protocol.kinds import AclOperation, AclPermissionType, PatternType

_OP = AclOperation
#: What a permission for the operation may come from, besides itself and ALL.
_IMPLIED_BY = {
    _OP.DESCRIBE: (_OP.READ, _OP.WRITE, _OP.DELETE, _OP.ALTER),
    _OP.DESCRIBE_CONFIGS: (_OP.ALTER_CONFIGS,),
}
#: So many decisions are kept.
_DECISIONS = 10_000
_ANY_HOST = "*"

Patterns = dict[tuple[int, int, str], list[AclBinding]]


class StandardAuthorizer:
    """Decides by the ACLs that it is given; `super_users` are principals as `User:admin`."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._patterns: Patterns = {}
        self._decisions: dict[tuple[str, str, int, int, str], bool] = {}

    def add(self, acl: AclBinding) -> None:
        """Take note of an ACL."""
        self._patterns.setdefault((acl.resource_type, acl.pattern_type, acl.resource_name), []).append(acl)
        self._decisions.clear()

    def remove(self, acl: AclBinding) -> None:
        """Forget an ACL, of equal ones one."""
        key = (acl.resource_type, acl.pattern_type, acl.resource_name)
        there = self._patterns[key]
        there.remove(acl)
        if not there:
            del self._patterns[key]
        self._decisions.clear()

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether a principal may do that to a resource."""
        if principal in self._super_users:
            return True
        question = (principal, host, operation, resource_type, name)
        found = self._decisions.get(question)
        if found is None:
            if len(self._decisions) >= _DECISIONS:
                self._decisions.clear()
            found = self._decisions[question] = self._decide(*question)
        return found

    def why(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> str:
        """Return what decides, for people: the ACL, or that there is none; of super users it says nothing."""
        enough = (operation, _OP.ALL, *_IMPLIED_BY.get(AclOperation(operation), ()))
        fitting = list(self._fitting(resource_type, name))
        mine = [one for one in fitting if one.principal in (principal, EVERYBODY) and one.host in (host, _ANY_HOST)]
        for permission, operations in (
            (AclPermissionType.DENY, (operation, _OP.ALL)),
            (AclPermissionType.ALLOW, enough),
        ):
            for acl in mine:
                if acl.permission == permission and acl.operation in operations:
                    return f"{_shown(acl)}"
        if not fitting:
            return "no ACL fits the resource"
        return f"{len(fitting)} ACLs fit the resource, none of them allows it"

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether a principal may do that to at least one resource of a kind (Kafka's authorizeByResourceType)."""
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        fitting = [
            acl
            for (kind, _, _), acls in self._patterns.items()
            if kind == resource_type
            for acl in acls
            if acl.principal in (principal, EVERYBODY)
            and acl.host in (host, _ANY_HOST)
            and acl.operation in (operation, _OP.ALL)
        ]
        denied = {_pattern(acl) for acl in fitting if acl.permission == AclPermissionType.DENY}
        if (PatternType.LITERAL, ANY_NAME) in denied:
            return False
        allowed = {_pattern(acl) for acl in fitting if acl.permission == AclPermissionType.ALLOW}
        if (PatternType.LITERAL, ANY_NAME) in allowed:
            return True
        return any(pattern not in denied and not _is_covered(pattern[1], denied) for pattern in allowed)

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        enough = (operation, _OP.ALL, *_IMPLIED_BY.get(AclOperation(operation), ()))
        is_there_any = is_allowed = False
        for acl in self._fitting(resource_type, name):
            is_there_any = True
            if acl.principal not in (principal, EVERYBODY) or acl.host not in (host, _ANY_HOST):
                continue
            if acl.permission == AclPermissionType.DENY:
                if acl.operation in (operation, _OP.ALL):
                    return False
            elif acl.operation in enough:
                is_allowed = True
        return is_allowed or (not is_there_any and self._allow_if_no_acl)

    def _fitting(self, resource_type: int, name: str) -> Iterator[AclBinding]:
        patterns = self._patterns
        for literal in {name, ANY_NAME}:
            yield from patterns.get((resource_type, PatternType.LITERAL, literal), ())
        for end in range(1, len(name) + 1):
            yield from patterns.get((resource_type, PatternType.PREFIXED, name[:end]), ())


def _shown(acl: AclBinding) -> str:
    kind, pattern = AclPermissionType(acl.permission).name.lower(), PatternType(acl.pattern_type).name.lower()
    return f"{kind} {acl.principal} {AclOperation(acl.operation).name.lower()} on {pattern} {acl.resource_name}"


def _pattern(acl: AclBinding) -> tuple[int, str]:
    return acl.pattern_type, acl.resource_name


def _is_covered(name: str, denied: set[tuple[int, str]]) -> bool:
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))
