"""`barnabas up --brokers N --secure`: what `--secure` makes for one broker, and a certificate of the nodes' own."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.config import join_address, parse_address, parse_listener
from barnabas.cli.secure import ADMIN, AUTHORITY, DEFAULT_LISTEN, Secured, issue, own_secret, secure
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.broker.local_cluster_security import ClusterSecurity

_NODE = "node.pem"
#: The name in the certificate by which nodes know each other; others are issued to brokers for clients only.
_NODE_NAME = "barnabas-node"
_NAMES = (_NODE_NAME, "localhost", "127.0.0.1", "::1")
#: They have a host and port each, which the cluster sets.
_OF_ONE_BROKER = ("advertised.listeners",)


class SecuredCluster(NamedTuple):
    """What was made, and what the nodes are given."""

    made: Secured
    security: ClusterSecurity
    listen: str = DEFAULT_LISTEN

    def servers(self, addresses: Iterable[str]) -> str:
        """Return by what clients reach the brokers that listen at these addresses."""
        ports = (parse_address(address)[1] for address in addresses)
        return ",".join(join_address(self.security.host, port) for port in ports)


def secure_cluster(given: Mapping[str, str], listen: str | None, data: str) -> SecuredCluster:
    """Make what is missing for a cluster in a directory. Raises `ConfigError` as `secure` does."""
    from barnabas.broker.local_cluster_security import ClusterSecurity
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
    from barnabas.broker.metadata.memory_store import MemoryStore
    from barnabas.broker.security.scram_users import ScramUsers

    for name in _OF_ONE_BROKER:
        if name in given:
            raise ConfigError(f"{name} does not go together with --brokers and --secure: each broker has its own")
    made = secure(given, listen, data)
    settings = dict(made.settings)
    host = parse_listener(settings.pop("advertised.listeners")).host
    del settings["listeners"]
    of_clients = settings.pop("ssl.keystore.location")
    settings |= {
        "listener.name.sasl_ssl.ssl.keystore.location": of_clients,
        "ssl.keystore.location": issue(made.folder, _NODE, _NAMES, datetime.now(UTC)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": os.path.join(made.folder, AUTHORITY),
        "super.users": f"{settings['super.users']};User:CN={_NODE_NAME}",
    }
    users = made.administrator(ScramUsers(ClusterMetadata(MemoryStore())))

    def check_users(are_new: bool) -> None:
        if made.is_new and not are_new:
            raise ConfigError(
                f"--secure: the cluster is there already, and {made.admin_file} with its administrator's password is "
                f"not: put it back. If it is lost, start the cluster without --secure, give the user {ADMIN} a "
                "password with `barnabas user`, and write a sasl.jaas.config with it into that file"
            )

    secret = partial(own_secret, made.folder)
    return SecuredCluster(made, ClusterSecurity(settings, host, users, made.is_new, check_users, secret))
