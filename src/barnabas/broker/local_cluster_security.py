"""What secures a cluster on this machine: TLS and logins for clients, TLS with certificates for its nodes.

Clients come to the listener SASL_SSL. Brokers reach each other by INTERNAL, and all nodes the controllers by
CONTROLLER: both ask for a certificate of the cluster's own authority, whose name is that of a super user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.config import join_address, parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.security.scram_users import Alterations

_CLIENTS, _BROKERS, _CONTROLLERS = "SASL_SSL", "INTERNAL", "CONTROLLER"


class ClusterSecurity(NamedTuple):
    """Settings of all nodes, the host by which clients know the brokers, and who can log in from the start.

    With `has_new_users` their passwords are new ones; `check_users(are_written)` raises `ConfigError` where the cluster
    knows others then. `secret(name)` is a secret of the cluster's own, made once.
    """

    settings: Mapping[str, str]
    host: str
    users: Alterations
    has_new_users: bool
    check_users: Callable[[bool], None]
    secret: Callable[[str], str]

    def of_controller(self) -> dict[str, str]:
        """Return what a controller is given."""
        return {
            **self.settings,
            "listener.security.protocol.map": f"{_CLIENTS}:SASL_SSL,{_BROKERS}:SSL,{_CONTROLLERS}:SSL",
            f"listener.name.{_BROKERS.lower()}.ssl.client.auth": "required",
            f"listener.name.{_CONTROLLERS.lower()}.ssl.client.auth": "required",
        }

    def of_broker(self, address: str, internal: str) -> dict[str, str]:
        """Return what a broker is given that clients reach at `address`, and other brokers at `internal`."""
        advertised = join_address(self.host, parse_address(address)[1])
        return {
            **self.of_controller(),
            "listeners": f"{_CLIENTS}://{address},{_BROKERS}://{internal}",
            "advertised.listeners": f"{_CLIENTS}://{advertised},{_BROKERS}://{internal}",
            "inter.broker.listener.name": _BROKERS,
        }
