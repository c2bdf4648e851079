"""The broker's settings, and what follows from them: listeners, the data directory, topic defaults."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas.broker.groups.group_coordinator_config import check_group_settings
from barnabas.broker.listener_config import MECHANISMS, ListenerConfig, Override, parse_overrides, taken_out
from barnabas.broker.replication.replica_selector import RACK_AWARE
from barnabas.config.config import Config
from barnabas.config.topic_defaults import topic_defaults
from barnabas.errors import ConfigError

#: The security protocols of listeners, by Kafka's numbers.
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOG_MANAGER_SETTINGS = (
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.enable",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "log.retention.check.interval.ms",
    "producer.id.expiration.ms",
)
#: The roles of a node (`process.roles`).
BROKER, CONTROLLER = "broker", "controller"
#: `broker.id` of a broker under ZooKeeper that has to be given one.
_UNKNOWN_ID = -1
_LOOPBACK_NAMES = ("localhost", "ip6-localhost")


class Listener(NamedTuple):
    """Where clients connect: a name, an address ("" is every address of the machine) and a port (0: any free one).

    `protocol` is its security protocol, as in `listener.security.protocol.map`.
    """

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    @property
    def address(self) -> str:
        """Host and port as clients write them, `*` for every address."""
        return join_address(self.host or "*", self.port)


class PeerListener(NamedTuple):
    """A listener of other nodes that this broker connects to; `mechanism` counts where the protocol has SASL."""

    name: str
    protocol: str
    mechanism: str


class ZooKeeperConnect(NamedTuple):
    """What `zookeeper.connect` says: servers with commas, and the znode below which a cluster is ("" for none)."""

    servers: str
    chroot: str


class BrokerConfig(Config):
    """`Config` of the section "broker", with what has to be computed from several settings.

    A node with both roles has two of these: each says what one of the roles goes by, `listeners` are its own. `role` is
    "broker" unless the node is a controller only. `is_formatted`: the data directory was formatted for a quorum.

    Raises `ConfigError`: as `Config` does, and for combinations that cannot be served.
    """

    __slots__ = (
        "_overrides",
        "_properties",
        "_topic_defaults",
        "advertised",
        "dynamic",
        "dynamic_default",
        "inter_broker_listener",
        "is_formatted",
        "listeners",
        "node_id",
        "role",
        "secrets_file",
    )

    def __init__(
        self,
        properties: Mapping[str, Any] | None = None,
        keywords: Mapping[str, Any] | None = None,
        *,
        role: str | None = None,
        is_formatted: bool = False,
    ) -> None:
        self._properties = dict(properties or {})
        own, prefixed = taken_out(self._properties)
        super().__init__("broker", own, keywords)
        self._share_id()
        self.node_id = self.get_int("node.id")
        self.role = role or (BROKER if BROKER in self.get_list("process.roles") else CONTROLLER)
        self.is_formatted = is_formatted
        #: The file that the settings came from, where it has passwords or keys.
        self.secrets_file: str | None = None
        self.listeners = self._listeners()
        self.advertised = self._advertised()
        #: The name of the listener through which brokers reach each other.
        self.inter_broker_listener = self._inter_broker_listener()
        self._overrides = self._listener_overrides(prefixed)
        self._topic_defaults: dict[str, Any] | None = None
        #: What was set while brokers ran, for this one and for all of them, as text (see `apply_dynamic`).
        self.dynamic: Mapping[str, str] = {}
        self.dynamic_default: Mapping[str, str] = {}
        self._check_roles()
        selector = self["replica.selector.class"]
        if selector and selector != RACK_AWARE:
            raise ConfigError(
                f"replica.selector.class={selector} cannot be loaded: only {RACK_AWARE} is known, or none, so that "
                "consumers read from leaders"
            )
        check_group_settings(self)
        parse_limits(self.get_str("max.connections.per.ip.overrides"))
        for listener in self.listeners:
            # A setting that cannot be used there is refused now.
            self.listener_config(listener.name)

    def listener_config(self, listener: str, mechanism: str | None = None) -> ListenerConfig:
        """Return the settings in force for a listener, or for one of its SASL mechanisms. Raises ConfigError."""
        keys = self._definitions.keys
        chosen = {**self.dynamic_default, **self.dynamic}
        dynamic = {name: keys[name].parse(text) for name, text in chosen.items() if name in keys}
        _, prefixed = taken_out(chosen)
        while_running, _ = parse_overrides(prefixed, [listener])
        return ListenerConfig({**self._given, **dynamic}, [*self._overrides, *while_running], listener, mechanism)

    def authenticates(self, listener: Listener) -> bool:
        """Whether clients of a listener show who they are: by SASL, or by a certificate that is required."""
        if listener.protocol.startswith("SASL"):
            return True
        return listener.protocol == "SSL" and self.listener_config(listener.name)["ssl.client.auth"] == "required"

    def apply_dynamic(self, for_all: Mapping[str, str], for_this_broker: Mapping[str, str]) -> None:
        """From now on these values hold, where they are known settings; the second go before the first."""
        keys = self._definitions.keys
        self.dynamic_default, self.dynamic = for_all, for_this_broker
        chosen = {**for_all, **for_this_broker}
        parsed = {name: keys[name].parse(text) for name, text in chosen.items() if name in keys}
        self._values = {**self._given, **parsed}
        self._topic_defaults = None

    @property
    def data_directories(self) -> list[str]:
        """The directories that log.dirs or log.dir names, each once; none when neither is given."""
        given = [name for name in ("log.dirs", "log.dir") if self.is_given(name)]
        return list(dict.fromkeys(map(str, self.get_list(given[0])))) if given else []

    @property
    def data_directory(self) -> str | None:
        """The first of the directories, which has the metadata of a broker that is alone, too; None without any."""
        return next(iter(self.data_directories), None)

    @property
    def topic_defaults(self) -> dict[str, Any]:
        """What each topic setting is when the topic does not say otherwise; not to be changed."""
        if self._topic_defaults is None:
            self._topic_defaults = topic_defaults(self)
        return self._topic_defaults

    @property
    def log_settings(self) -> dict[str, Any]:
        """What the log manager goes by: the topic defaults, and the intervals of the work in the background."""
        return {**self.topic_defaults, **{name: self[name] for name in _LOG_MANAGER_SETTINGS}}

    def _share_id(self) -> None:
        # The two names mean the same (KafkaConfig.populateSynonyms): what one is given, the other has.
        if self.is_given("broker.id"):
            if self.get_int("broker.id") < _UNKNOWN_ID:
                raise ConfigError(f"broker.id={self['broker.id']}: it is 0 or higher, or -1 for a generated one")
            if self.get_int("broker.id") == _UNKNOWN_ID:
                del self._given["broker.id"]
        if self.zookeeper is not None and not (self.is_given("broker.id") or self.is_given("node.id")):
            self._given["broker.id"] = _UNKNOWN_ID
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if self.is_given(name) and not self.is_given(other):
                self._given[other] = self._values[other] = self.get_int(name)

    def take_broker_id(self, broker_id: int) -> None:
        """Go by an id that was generated; before anything else reads it."""
        self.node_id = broker_id
        for name in ("node.id", "broker.id"):
            self._given[name] = self._values[name] = broker_id

    def _check_broker_id(self) -> None:
        """Check the id of a broker under ZooKeeper as KafkaConfig.validateValues of 3.9 does."""
        highest = self.get_int("reserved.broker.max.id")
        if not self.get_bool("broker.id.generation.enable"):
            if self.node_id < 0:
                raise ConfigError("broker.id is missing, and broker.id.generation.enable=false: set one of its own")
        elif self.node_id > highest:
            raise ConfigError(
                f"broker.id={self.node_id} is above reserved.broker.max.id={highest}, where ids are generated: choose "
                "a lower one, raise reserved.broker.max.id, or set broker.id.generation.enable=false"
            )

    def _check_roles(self) -> None:
        if self.zookeeper is not None:
            self._check_zookeeper(self.zookeeper)
            return
        if self.is_given("zookeeper.connect"):
            _warn(
                f"zookeeper.connect={self['zookeeper.connect']} has no effect: this broker keeps its metadata itself. "
                "Set inter.broker.protocol.version=3.9 as well to join the cluster whose metadata are in that ZooKeeper"
            )
        if self.is_controller:
            self._check_quorum()
        elif self._names_other_controllers() and not self.is_given("process.roles"):
            names = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
            name = next(name for name in names if self[name])
            raise ConfigError(
                f"{name}={','.join(map(str, self[name]))} names a quorum of other controllers: set "
                "process.roles=broker to join it as a broker, or process.roles=controller to be one of them; remove it "
                "to run this broker on its own"
            )
        if self.is_member and self.role == BROKER:
            self._check_member()

    def _check_zookeeper(self, zookeeper: ZooKeeperConnect) -> None:
        if not zookeeper.servers:
            raise ConfigError(f"zookeeper.connect={self['zookeeper.connect']}: name servers, such as zk1:2181/kafka")
        version = self.get_str("inter.broker.protocol.version")
        if not version.startswith("3.9"):
            raise ConfigError(
                f"inter.broker.protocol.version={version}: a broker in a cluster with ZooKeeper speaks 3.9 only; "
                "upgrade the cluster's brokers to 3.9 and this setting of theirs first"
            )
        self._check_broker_id()
        self._check_mechanisms()

    @property
    def of_brokers(self) -> PeerListener:
        """The listener of other brokers that this one connects to."""
        name = self.inter_broker_listener
        protocol = next(found.protocol for found in self.listeners if found.name == name)
        return PeerListener(name, protocol, self.get_str("sasl.mechanism.inter.broker.protocol").upper())

    @property
    def of_controllers(self) -> PeerListener:
        """The listener on which this broker reaches the controller; under ZooKeeper that is one of the brokers."""
        if self.zookeeper is not None:
            return self.of_brokers
        name = str((self["controller.listener.names"] or ["CONTROLLER"])[0]).upper()
        mechanism = self.get_str("sasl.mechanism.controller.protocol").upper()
        return PeerListener(name, self._protocols().get(name, "PLAINTEXT"), mechanism)

    def _check_mechanisms(self) -> None:
        """Refuse mechanisms that connections to other nodes cannot use."""
        settings = ("sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol")
        for setting, peer in zip(settings, (self.of_brokers, self.of_controllers), strict=True):
            if peer.protocol.startswith("SASL") and peer.mechanism not in MECHANISMS[:-1]:
                raise ConfigError(
                    f"{setting}={peer.mechanism}: this broker cannot show with it who it is, and listener {peer.name} "
                    f"wants that; set it to one of {', '.join(MECHANISMS[:-1])} that is enabled there"
                )

    def _check_member(self) -> None:
        if not self.controllers:
            raise ConfigError(
                "process.roles=broker is a member of a cluster with controllers of its own: name them in "
                "controller.quorum.bootstrap.servers, or leave process.roles out to run this broker on its own"
            )
        self._check_mechanisms()

    @property
    def is_member(self) -> bool:
        """Whether the broker goes by what controllers of a cluster decide, which may be in the same process."""
        return self.zookeeper is not None or CONTROLLER not in self.get_list("process.roles") or self.is_controller

    @property
    def is_controller(self) -> bool:
        """Whether the node has a controller: a replica of the quorum's log.

        A node with both roles that names no other controller, in a directory that was not formatted, has none: it is a
        broker that keeps its metadata itself.
        """
        roles = self.get_list("process.roles")
        if CONTROLLER not in roles or not self.is_given("process.roles"):
            return False
        return BROKER not in roles or self.is_formatted or self._names_other_controllers()

    def of_controller(self) -> BrokerConfig:
        """Return what the controller of the same node goes by."""
        if self.role == CONTROLLER:
            return self
        return BrokerConfig(self._properties, role=CONTROLLER, is_formatted=self.is_formatted)

    @property
    def metadata_directory(self) -> str | None:
        """Where the quorum's log lies: metadata.log.dir, or the first of the data directories."""
        return self["metadata.log.dir"] or self.data_directory

    @property
    def zookeeper(self) -> ZooKeeperConnect | None:
        """The ZooKeeper whose cluster the broker joins; None for a broker that joins none.

        A file of Kafka's own that names a ZooKeeper on this machine only, and no protocol between brokers, is one to
        try a single broker with, and needs none.
        """
        if not self["zookeeper.connect"] or self.is_given("process.roles"):
            return None
        servers, _, chroot = str(self["zookeeper.connect"]).partition("/")
        names = [server.strip().rpartition(":")[0] or server.strip() for server in servers.split(",")]
        if not self.is_given("inter.broker.protocol.version") and all(map(is_loopback, names)):
            return None
        return ZooKeeperConnect(servers, f"/{chroot.strip('/')}" if chroot.strip("/") else "")

    @property
    def controllers(self) -> list[tuple[str, int]]:
        """Where controllers are reached, as `controller.quorum.bootstrap.servers` or `.voters` says."""
        servers = [parse_address(str(node)) for node in self["controller.quorum.bootstrap.servers"] or []]
        return servers or list(self.voters.values())

    @property
    def voters(self) -> dict[int, tuple[str, int]]:
        """The static voters by their ids (`controller.quorum.voters`); none where the quorum is dynamic (KIP-853)."""
        found = {}
        for text in self["controller.quorum.voters"] or []:
            voter, at, address = str(text).partition("@")
            if not at or not voter.strip().isdecimal():
                raise ConfigError(f"controller.quorum.voters holds {text!r}; it must be ID@HOST:PORT, as 1@host:9093")
            found[int(voter)] = parse_address(address)
        return found

    def _names_other_controllers(self) -> bool:
        # One bootstrap server may be this node: Apache Kafka's own file for a single node has it.
        servers = self["controller.quorum.bootstrap.servers"] or []
        return len(servers) > 1 or any(voter != self.node_id for voter in self.voters)

    def _check_quorum(self) -> None:
        voters, roles = self.voters, ",".join(self.get_list("process.roles"))
        if not self.controller_listener_names:
            raise ConfigError(f"process.roles={roles} needs controller.listener.names: set it to CONTROLLER")
        if not self.controllers:
            raise ConfigError(
                f"process.roles={roles} needs the quorum: name it in controller.quorum.bootstrap.servers, or with "
                f"static voters in controller.quorum.voters, as {self.node_id}@127.0.0.1:9093"
            )
        if voters and self.node_id not in voters:
            raise ConfigError(
                f"node.id={self.node_id} is none of controller.quorum.voters={','.join(map(str, voters))}: a node "
                "with the role controller is a voter, or the quorum is named in controller.quorum.bootstrap.servers"
            )
        if self.role == CONTROLLER:
            first = self.controller_listener_names[0]
            if first not in {listener.name for listener in self.listeners}:
                raise ConfigError(f"controller.listener.names={first} is not among the listeners")
            self._check_mechanisms()

    def of_internal_topic(self, name: str, in_cluster: int) -> int:
        """Return how often an internal topic is replicated, or has to be: in a cluster Kafka's default, else 1."""
        return self.get_int(name) if self.is_given(name) or not self.is_member else in_cluster

    @property
    def controller_listener_names(self) -> list[str]:
        """The names of the controllers' listeners; the first is the one at which controllers reach each other."""
        return [str(name).upper() for name in self["controller.listener.names"] or []]

    def _listeners(self) -> tuple[Listener, ...]:
        controllers = self.controller_listener_names
        protocols = self._protocols()
        found = [parse_listener(text) for text in self.get_list("listeners")]
        names = [listener.name for listener in found]
        if len(set(names)) != len(names):
            raise ConfigError(f"listeners={','.join(map(str, self['listeners']))}: each name may stand there once")
        served = []
        for listener in found:
            protocol = protocols.get(listener.name)
            is_own = (listener.name in controllers) == (self.role == CONTROLLER)
            if (
                protocol is None
                and listener.name in controllers
                and not self.is_given("listener.security.protocol.map")
            ):
                protocol = "PLAINTEXT"
            if protocol is None and (is_own or listener.name not in controllers):
                raise ConfigError(
                    f"listener {listener.name} has no security protocol: add {listener.name}:PLAINTEXT to "
                    "listener.security.protocol.map"
                )
            if is_own:
                served.append(listener._replace(protocol=str(protocol)))
        if not served and self.role == CONTROLLER:
            raise ConfigError(
                f"process.roles={','.join(self.get_list('process.roles'))}: listeners has none for controllers: add "
                "CONTROLLER://127.0.0.1:9093, and controller.listener.names=CONTROLLER"
            )
        if not served:
            raise ConfigError("listeners has none for clients: add PLAINTEXT://127.0.0.1:9092")
        return tuple(served)

    def _inter_broker_listener(self) -> str:
        name, protocol = self["inter.broker.listener.name"], self.get_str("security.inter.broker.protocol")
        if self.role == CONTROLLER:
            return self.listeners[0].name
        if name is None:
            of_protocol = [listener.name for listener in self.listeners if listener.protocol == protocol]
            if protocol in of_protocol:
                return protocol
            if self.is_given("security.inter.broker.protocol") and not of_protocol:
                raise ConfigError(f"security.inter.broker.protocol={protocol}: no listener for brokers has it")
            return (of_protocol or [self.listeners[0].name])[0]
        if self.is_given("security.inter.broker.protocol"):
            raise ConfigError("inter.broker.listener.name and security.inter.broker.protocol are both given; give one")
        if name.upper() not in {listener.name for listener in self.listeners}:
            raise ConfigError(
                f"inter.broker.listener.name={name} is no listener for brokers and clients: "
                f"they are {', '.join(listener.name for listener in self.listeners)}"
            )
        return str(name).upper()

    def _listener_overrides(self, prefixed: Mapping[str, Any]) -> list[Override]:
        names = [*(listener.name for listener in self.listeners), *self.controller_listener_names]
        overrides, others = parse_overrides(prefixed, names)
        if others and self.role == BROKER:
            _warn(f"{', '.join(others)}: no listener for clients or controllers has that name")
        return overrides

    def _protocols(self) -> dict[str, str]:
        found = {}
        for item in self.get_str("listener.security.protocol.map").split(","):
            name, _, protocol = item.strip().rpartition(":")
            if not name or protocol.upper() not in SECURITY_PROTOCOLS:
                raise ConfigError(
                    f"listener.security.protocol.map holds {item!r}; it must be NAME:PROTOCOL with one of "
                    + ", ".join(SECURITY_PROTOCOLS)
                )
            found[name.upper()] = protocol.upper()
        return found

    def _advertised(self) -> dict[str, Listener]:
        given, controllers = self["advertised.listeners"] or [], self.controller_listener_names
        is_controller = self.role == CONTROLLER
        found = {
            listener.name: listener
            for listener in map(parse_listener, given)
            if (listener.name in controllers) == is_controller
        }
        unknown = [name for name in found if name not in {listener.name for listener in self.listeners}]
        if unknown:
            raise ConfigError(
                f"advertised.listeners has {', '.join(unknown)}, which is no listener for clients: "
                f"they are {', '.join(listener.name for listener in self.listeners)}"
            )
        for listener in found.values():
            if listener.host in ("", "0.0.0.0", "::"):  # noqa: S104 - refused here, not bound
                raise ConfigError(
                    f"advertised.listeners: clients cannot connect to {listener.host or 'an empty host'!r}; "
                    "name the address they shall use"
                )
        return found


def _warn(text: str) -> None:
    import logging

    logging.getLogger("barnabas.config").warning("%s", text)


def advertised_address(config: BrokerConfig, bound: Listener) -> tuple[str, int]:
    """Host and port to tell the clients of a listener."""
    advertised = config.advertised.get(bound.name)
    if advertised is not None:
        return advertised.host, advertised.port or bound.port
    if bound.host in ("", "0.0.0.0", "::"):  # noqa: S104 - what was bound, not bound here
        return socket.getfqdn(), bound.port
    return bound.host, bound.port


def parse_listener(text: str) -> Listener:
    """Return a listener from `NAME://host:port`, `[v6]` in brackets. Raises ConfigError."""
    name, separator, address = str(text).partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not name or not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{text!r} is not a listener: it must look like PLAINTEXT://127.0.0.1:9092")
    return Listener(name.upper(), host.strip("[]"), int(port))


def parse_limits(text: str) -> dict[str, int]:
    """Address → limit, from `max.connections.per.ip.overrides`: `10.0.0.1:100,[::1]:5`. Raises ConfigError."""
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, colon, count = item.rpartition(":")
        if not colon or not address or not count.isascii() or not count.isdigit():
            raise ConfigError(
                f"max.connections.per.ip.overrides holds {item!r}; it must be ADDRESS:LIMIT, such as 127.0.0.1:200"
            )
        found[address.strip("[]")] = int(count)
    return found


def parse_address(text: str) -> tuple[str, int]:
    """Host and port from `host:port`, `[v6]:port` or `:port`. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{text!r} is not an address: it must be HOST:PORT, such as 127.0.0.1:9092")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return host in _LOOPBACK_NAMES or host == "::1" or (host.startswith("127.") and host.replace(".", "").isdigit())
