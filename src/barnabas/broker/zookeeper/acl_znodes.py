"""ACLs as AclAuthorizer keeps them: a znode for each resource, and announced changes (ZkAclStore, AclEntry of 3.9)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from barnabas import errors
from barnabas.broker.security.acl_binding import AclBinding
from barnabas.broker.zookeeper.announcements import Announcements
from barnabas.broker.zookeeper.operations import (
    BadVersionError,
    Children,
    Create,
    Delete,
    Get,
    NodeExistsError,
    NoNodeError,
    Operation,
    Program,
    SetData,
    check,
    expect,
    found_or_none,
    make_missing,
)
from barnabas.broker.zookeeper.znodes import MalformedZnodeError, decode, encode, refuse
from barnabas.protocol.kinds import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.zookeeper.announcements import Report
    from barnabas.protocol.message import Message

_ROOTS = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
_LITERAL_CHANGES, _EXTENDED_CHANGES = "/kafka-acl-changes", "/kafka-acl-extended-changes"
#: Where changes are announced.
ACL_CHANGES = (_LITERAL_CHANGES, _EXTENDED_CHANGES)
_RESOURCES = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.USER,
)
#: How often a change is tried that others were quicker with, as AclAuthorizer does.
_MOST_TRIES = 11

Kind = TypeVar("Kind", bound=IntEnum)


class Pattern(NamedTuple):
    """What a znode of ACLs is for; numbers as in the protocol."""

    resource_type: int
    name: str
    pattern_type: int

    @classmethod
    def of(cls, acl: AclBinding) -> Pattern:
        """Return the one under which an ACL stands. Raises `InvalidRequestError` for one that has no znode."""
        if "/" in acl.resource_name or acl.resource_name in (".", ".."):
            raise errors.InvalidRequestError(
                f"The resource {acl.resource_name!r} cannot be the name of a znode: no ACL is kept for it in ZooKeeper"
            )
        return cls(acl.resource_type, acl.resource_name, acl.pattern_type)


#: The ACLs of each resource that has some or had.
Acls = Mapping[Pattern, frozenset[AclBinding]]


class FoundAcls(NamedTuple):
    """What was read: of all resources, or of those whose change was announced; and the numbers that were read last."""

    acls: Acls
    last_changes: Mapping[str, int]


# -- what stands in znodes -------------------------------------------------------------------------------------------


def acl_path(pattern: Pattern) -> str:
    """Return where the ACLs of a resource stand."""
    kind = _pascal(ResourceType(pattern.resource_type))
    return f"{_ROOTS[PatternType(pattern.pattern_type)]}/{kind}/{pattern.name}"


def encode_acls(acls: Collection[AclBinding]) -> bytes:
    """Return what the znode of a resource holds."""
    entries = [
        {
            "principal": acl.principal,
            "permissionType": _pascal(AclPermissionType(acl.permission)),
            "host": acl.host,
            "operation": _pascal(AclOperation(acl.operation)),
        }
        for acl in sorted(acls)
    ]
    return encode({"acls": entries, "version": 1})


def decode_acls(pattern: Pattern, data: bytes | None) -> frozenset[AclBinding]:
    """Return the ACLs of a resource; none where the znode is empty. Raises `MalformedZnodeError`."""
    path = acl_path(pattern)
    if not data:
        return frozenset()
    try:
        return frozenset(_decoded(pattern, entry) for entry in decode(path, data)["acls"])
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise MalformedZnodeError(f"the znode {path} holds no ACLs of Kafka's: {data!r}") from problem


def _decoded(pattern: Pattern, entry: Mapping[str, Any]) -> AclBinding:
    return AclBinding(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        str(entry["principal"]),
        str(entry["host"]),
        _of_pascal(AclOperation, entry["operation"]),
        _of_pascal(AclPermissionType, entry["permissionType"]),
    )


def encode_change(pattern: Pattern) -> tuple[str, bytes]:
    """Return where a change of a resource's ACLs is announced, and how."""
    kind = ResourceType(pattern.resource_type).name
    if pattern.pattern_type == PatternType.LITERAL:
        return _LITERAL_CHANGES, f"{kind}:{pattern.name}".encode()
    value = {"version": 1, "resourceType": kind, "name": pattern.name, "patternType": PatternType.PREFIXED.name}
    return _EXTENDED_CHANGES, encode(value)


def decode_change(path: str, data: bytes | None) -> Pattern:
    """Return the resource whose ACLs have changed. Raises `MalformedZnodeError`."""
    try:
        if path.startswith(f"{_LITERAL_CHANGES}/"):
            kind, _, name = (data or b"").decode().partition(":")
            return Pattern(ResourceType[kind.upper()], name, PatternType.LITERAL)
        value = decode(path, data)
        return Pattern(ResourceType[value["resourceType"]], value["name"], PatternType[value["patternType"]])
    except (KeyError, ValueError, TypeError) as problem:
        raise MalformedZnodeError(f"the znode {path} announces no change of ACLs: {data!r}") from problem


def _pascal(kind: IntEnum) -> str:
    return "".join(part.capitalize() for part in kind.name.split("_"))


def _of_pascal(kinds: type[Kind], text: str) -> Kind:
    return next(kind for kind in kinds if _pascal(kind).lower() == text.lower())


# -- programs --------------------------------------------------------------------------------------------------------


def prepare_acls() -> Program[None]:
    """Make the znodes below which ACLs stand, as a broker with an AclAuthorizer does."""
    paths = ["/kafka-acl-extended", *ACL_CHANGES]
    for root in _ROOTS.values():
        paths += [root, *(f"{root}/{_pascal(kind)}" for kind in _RESOURCES)]
    yield from make_missing(paths)


def read_all_acls() -> Program[FoundAcls]:
    """Read all ACLs. Changes are watched from before they are read, so none is missed."""
    yield from prepare_acls()
    last = {}
    for path in ACL_CHANGES:
        last[path] = yield from _announcements(path).watch()
    kinds = [(pattern, kind) for pattern in _ROOTS for kind in _RESOURCES]
    listed = yield [Children(f"{_ROOTS[pattern]}/{_pascal(kind)}") for pattern, kind in kinds]
    patterns = [
        Pattern(kind, name, pattern)
        for (pattern, kind), names in zip(kinds, listed, strict=True)
        if not isinstance(names, NoNodeError)
        for name in expect(names, list)
    ]
    return FoundAcls((yield from _read(patterns, refuse)), last)


def _read(patterns: Collection[Pattern], report: Report) -> Program[Acls]:
    results = yield [Get(acl_path(pattern)) for pattern in patterns]
    found = {}
    for pattern, result in zip(patterns, results, strict=True):
        znode = found_or_none(result)
        try:
            found[pattern] = frozenset() if znode is None else decode_acls(pattern, znode.data)
        except MalformedZnodeError as problem:
            report(problem)
    return found


def read_acl_changes(path: str, after: int, report: Report) -> Program[FoundAcls]:
    """Read the ACLs whose change was announced in `path` after a number.

    `report` is told of what Kafka does not write; it is left out.
    """
    patterns, last = yield from _announcements(path).read(after, report)
    return FoundAcls((yield from _read(patterns, report)), {path: last})


def update_acls(
    pattern: Pattern, change: Callable[[frozenset[AclBinding]], frozenset[AclBinding]]
) -> Program[frozenset[AclBinding]]:
    """Change the ACLs of a resource, by the version that was read, and announce it; returns those that it has then.

    Raises `ApiError` where others were quicker every time (AclAuthorizer.updateResourceAcls).
    """
    path = acl_path(pattern)
    for _ in range(_MOST_TRIES):
        (result,) = yield [Get(path)]
        znode = found_or_none(result)
        before = frozenset[AclBinding]() if znode is None else decode_acls(pattern, znode.data)
        after = change(before)
        if after == before:
            return after
        write: Operation
        if znode is None:
            write = Create(path, encode_acls(after))
        elif after:
            write = SetData(path, encode_acls(after), znode.version)
        else:
            write = Delete(path, znode.version)
        (result,) = yield [write]
        if isinstance(result, BadVersionError | NoNodeError | NodeExistsError):
            continue
        check(result)
        yield from announce([pattern])
        return after
    raise errors.UnknownServerError(f"{path} was changed by others {_MOST_TRIES} times meanwhile: try again")


def announce(patterns: Iterable[Pattern]) -> Program[None]:
    """Tell all brokers that the ACLs of resources have changed, one after the other."""
    for pattern in patterns:
        folder, data = encode_change(pattern)
        yield from _announcements(folder).announce([data])


def _announcements(folder: str) -> Announcements[Pattern]:
    return Announcements(folder, "acl_changes_", decode_change)


def changed_acls(
    pattern: Pattern, added: Collection[AclBinding], removed: Collection[AclBinding], before: frozenset[AclBinding]
) -> frozenset[AclBinding]:
    """Return the ACLs that a resource has when some came and went."""
    return (before | {acl for acl in added if Pattern.of(acl) == pattern}) - set(removed)


# -- metadata --------------------------------------------------------------------------------------------------------


def acl_records(image: MetadataImage, found: Acls, *, is_all: bool = False) -> Iterable[Message]:
    """Give the records with which an image has exactly these ACLs of these resources; `is_all`: and no others."""
    wanted = {_id(acl): acl for acls in found.values() for acl in acls}
    for id, known in image.acls.items():
        pattern = Pattern(known.resource_type, known.resource_name, known.pattern_type)
        if id not in wanted and (is_all or pattern in found):
            yield RemoveAccessControlEntryRecord(id=id)
    for id, acl in wanted.items():
        if id not in image.acls:
            yield AccessControlEntryRecord(
                id=id,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )


def _id(acl: AclBinding) -> bytes:
    """Return an id for an ACL, which has none in ZooKeeper: the same for the same ACL."""
    return sha256("\0".join(map(str, acl)).encode()).digest()[:16]
