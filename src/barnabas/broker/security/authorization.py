"""The authorizer of a broker: its ACLs as the metadata keeps them, its super users, and what is told of denials."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from barnabas.broker.repeated_warnings import RepeatedWarnings
from barnabas.broker.security.acl_binding import CLUSTER_NAME, AclBinding, AclFilter
from barnabas.broker.security.authorized_operations import AUTHORIZED_OPERATIONS, bit_field
from barnabas.broker.security.standard_authorizer import StandardAuthorizer
from barnabas.errors import ConfigError
from barnabas.protocol.kinds import AclOperation, ResourceType

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata, Done
    from barnabas.broker.metadata.metadata_store import Value
    from barnabas.broker.request_context import Connection, RequestContext

log = logging.getLogger("barnabas.authorizer")

_ACLS = "acls/"
_STANDARD = ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "standard")
_OF_ZOOKEEPER = "kafka.security.authorizer.AclAuthorizer"
_SETTING = "authorizer.class.name"
#: Names are cut in the log: clients choose them.
_LONGEST_LOGGED = 100


#: Stores ACLs in a home that the metadata do not write to: those that come, those that go.
WriteAcls: TypeAlias = "Callable[[Sequence[AclBinding], Sequence[AclBinding], Done], None]"


class Authorizer(Protocol):
    """What decides; a class of the user's own needs these two methods. A subclass of the standard one has ACLs, too."""

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether a principal may do that to a resource; numbers as in the protocol."""

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether a principal may do that to at least one resource of a kind."""


class Authorization:
    """Asks the authorizer, for handlers; keeps its ACLs at what the metadata says.

    With `write`, ACLs are stored elsewhere than in the metadata's own store.
    """

    def __init__(self, authorizer: Authorizer, metadata: ClusterMetadata, write: WriteAcls | None = None) -> None:
        self._write = write or self._put
        self.authorizer = authorizer
        self._metadata = metadata
        self._acls: dict[str, AclBinding] = {}
        self._denials = RepeatedWarnings(lambda line: log.info("%s", line))
        self.refresh()

    def refresh(self) -> None:
        """Take over the ACLs of the metadata."""
        wanted = {key: _binding(value) for key, value in self._metadata.values(_ACLS).items()}
        if isinstance(self.authorizer, StandardAuthorizer):
            for key in self._acls.keys() - wanted.keys():
                self.authorizer.remove(self._acls[key])
            for key in wanted.keys() - self._acls.keys():
                self.authorizer.add(wanted[key])
        self._acls = wanted

    def values_changed(self, keys: Iterable[str]) -> None:
        """Take over ACLs if any are among the records that have changed."""
        if any(key.startswith(_ACLS) for key in keys):
            self.refresh()

    # -- questions ---------------------------------------------------------------------------------------------------

    def allows(
        self, context: RequestContext, operation: int, resource_type: int, name: str, *, tell: bool = True
    ) -> bool:
        """Whether who asks may do that to a resource; `tell`: a denial is worth a line in the log."""
        who = context.connection
        is_allowed = self.authorizer.allows(who.principal, who.client_host, operation, resource_type, name)
        if (tell and not is_allowed) or log.isEnabledFor(logging.DEBUG):
            self._tell(context, is_allowed, operation, resource_type, name)
        return is_allowed

    def may_write_silently(self, who: Connection, topic: str) -> bool:
        """Whether a client may write to a topic, and no line of the log would tell of it."""
        return not log.isEnabledFor(logging.DEBUG) and self.authorizer.allows(
            who.principal, who.client_host, AclOperation.WRITE, ResourceType.TOPIC, topic
        )

    def allows_any(self, context: RequestContext, operation: int, resource_type: int) -> bool:
        """Whether who asks may do that to at least one resource of a kind."""
        who = context.connection
        return self.authorizer.allows_any(who.principal, who.client_host, operation, resource_type)

    def allows_cluster(self, context: RequestContext, operation: int, *, tell: bool = True) -> bool:
        """Whether who asks may do that to the cluster."""
        return self.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, tell=tell)

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """Return what who asks may do to a resource, as the bit field of KIP-430."""
        if resource_type == ResourceType.CLUSTER and not self.allows_cluster(
            context, AclOperation.DESCRIBE, tell=False
        ):
            return 0
        supported = AUTHORIZED_OPERATIONS[resource_type]
        return bit_field(
            operation
            for operation in AclOperation
            if supported >> operation & 1 and self.allows(context, operation, resource_type, name, tell=False)
        )

    def _tell(self, context: RequestContext, is_allowed: bool, operation: int, resource_type: int, name: str) -> None:
        who = context.connection
        shown = "".join(letter if letter.isprintable() else "?" for letter in name[:_LONGEST_LOGGED])
        outcome = "allowed" if is_allowed else "denied"
        line = (
            f"Principal = {who.principal} is {outcome} operation = {AclOperation(operation).name} from host = "
            f"{who.client_host} on resource = {ResourceType(resource_type).name}:{shown} "
            f"for request = {context.api_key}"
        )
        if is_allowed:
            log.debug("%s", line)
        else:
            # Of one principal, one a second: a denied client must not fill the log.
            self._denials.say(who.principal, line, context.now)

    # -- ACLs --------------------------------------------------------------------------------------------------------

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the ACLs that a filter means."""
        return [acl for acl in self._acls.values() if wanted.matches(acl)]

    def create(self, acls: Sequence[AclBinding], done: Done) -> None:
        """Store ACLs, of equal ones one, in one commit."""
        there = set(self._acls.values())
        new = dict.fromkeys(acl for acl in acls if acl not in there)
        self._write(list(new), [], done)

    def delete(self, acls: Iterable[AclBinding], done: Done) -> None:
        """Delete ACLs, in one commit."""
        self._write([], list(acls), done)

    def _put(self, added: Sequence[AclBinding], removed: Sequence[AclBinding], done: Done) -> None:
        values = {_ACLS + _key(acl): _value(acl) for acl in added}
        self._metadata.put_values({**values, **{_ACLS + _key(acl): None for acl in removed}}, done)


def make_authorization(
    config: BrokerConfig, metadata: ClusterMetadata, write: WriteAcls | None = None
) -> Authorization | None:
    """Return the authorizer that the settings name; None where every principal may everything. Raises ConfigError."""
    name = config.get_str(_SETTING).strip()
    super_users = [user.strip() for user in (config["super.users"] or "").split(";") if user.strip()]
    for user in super_users:
        if ":" not in user:
            raise ConfigError(
                f"super.users holds {user!r}; it must be TYPE:NAME with semicolons between, as User:admin"
            )
    if not name:
        if super_users or config.is_given("allow.everyone.if.no.acl.found"):
            raise ConfigError(
                f"super.users and allow.everyone.if.no.acl.found need {_SETTING}: set it to {_STANDARD[0]}"
            )
        return None
    if name == _OF_ZOOKEEPER and config.zookeeper is None:
        raise ConfigError(
            f"{_SETTING}={name} keeps ACLs in ZooKeeper, and this broker joins no cluster there: take {_STANDARD[0]}"
        )
    if name in (*_STANDARD, _OF_ZOOKEEPER):
        allow_if_no_acl = config.get_bool("allow.everyone.if.no.acl.found")
        authorizer: Authorizer = StandardAuthorizer(super_users, allow_if_no_acl=allow_if_no_acl)
    else:
        from barnabas.config.loading import load_attribute

        if ":" not in name:
            raise ConfigError(f"{_SETTING}={name!r} is a Java class; there is {_STANDARD[0]}, or package.module:Class")
        authorizer = load_attribute(name, _SETTING)()
    return Authorization(authorizer, metadata, write)


def _key(acl: AclBinding) -> str:
    # The ACL itself: of equal ones there is one.
    return "\t".join(str(part).replace("\\", "\\\\").replace("\t", "\\t") for part in acl)


def _value(acl: AclBinding) -> Value:
    return acl._asdict()


def _binding(value: Value) -> AclBinding:
    return AclBinding(**value)
