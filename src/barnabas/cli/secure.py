"""`barnabas up --secure`: TLS, an administrator and ACLs of the broker's own, and the settings that let clients in.

What it makes lies in a folder beside the data, which only its owner may read. It is made once; the broker's
certificate again when the machine has got another name or it soon ends.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.config import is_loopback, join_address, parse_address, parse_listener
from barnabas.cli.printed_command import printed_command
from barnabas.config.properties_file import parse_properties, read_properties
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.broker.security.scram_users import Alterations, ScramUsers

ADMIN = "admin"
DEFAULT_LISTEN = ":9092"
_LISTENER = "SASL_SSL"
_SERVERS = "bootstrap.servers"
_MECHANISM = "SCRAM-SHA-512"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
#: Settings that would not go together with those made here; a dot at the end stands for all that begin so.
_OWN = (
    "authorizer.class.name",
    "controller.listener.names",
    "delegation.token.secret.key",
    "inter.broker.listener.name",
    "listener.name.",
    "listener.security.protocol.map",
    "listeners",
    "process.roles",
    "sasl.",
    "ssl.",
)
_AUTHORITY_KEY, AUTHORITY, _BROKER = "authority.key", "authority.pem", "broker.pem"
_ALL_OF_ORDERS = ("--principal", "User:alice", "--operation", "all", "--topic", "orders")
_ADMIN_FILE, _TOKENS = "admin.properties", "delegation-tokens.key"


class Secured(NamedTuple):
    """What was made: settings of the broker, and the administrator's password; `is_new` the first time."""

    folder: str
    settings: dict[str, str]
    password: str
    is_new: bool

    def __repr__(self) -> str:
        return f"Secured({self.folder!r}, [hidden])"

    @property
    def admin_file(self) -> str:
        """Where the administrator's settings are."""
        return os.path.join(self.folder, _ADMIN_FILE)

    def administrator(self, users: ScramUsers) -> Alterations:
        """Return the administrator's credential where the broker has none, or the password is a new one."""
        from barnabas.broker.security.scram_users import MECHANISMS
        from barnabas.network.security import scram

        number = next(number for number, name in MECHANISMS.items() if name == _MECHANISM)
        if number in users.iterations(ADMIN) and not self.is_new:
            return {}
        salt, iterations = os.urandom(scram.SALT_BYTES), scram.FEWEST_ITERATIONS
        salted = scram.salted_password(_MECHANISM, self.password.encode(), salt, iterations)
        return {(ADMIN, _MECHANISM): scram.stored_credential(_MECHANISM, salted, salt, iterations)}

    def server(self, port: int) -> str:
        """Return by what clients reach the broker, which listens at a port."""
        advertised = parse_listener(self.settings["advertised.listeners"])
        return join_address(advertised.host, advertised.port or port)

    def tell(self, servers: str) -> str:
        """Write the administrator's settings, now that the servers are known; return what the operator is told."""
        path = self.admin_file
        text = self._client_settings(servers)
        if self.is_new or read_properties(path).get(_SERVERS) != parse_properties(text)[_SERVERS]:
            _write(path, text.encode())
        if not self.is_new:
            return f"clients need TLS and a login; the administrator's settings are in {path}"
        return (
            f"clients need TLS and a login. The administrator's settings, which {path} holds, too:\n\n{text}\n"
            "barnabas takes them by --config FILE, Kafka's tools by --command-config FILE. Next:\n"
            f"  {printed_command('user', 'add', 'alice', '--config', path)}\n"
            f"  {printed_command('acl', 'add', *_ALL_OF_ORDERS, '--config', path)}"
        )

    def _client_settings(self, servers: str) -> str:
        with open(os.path.join(self.folder, AUTHORITY), encoding="ascii") as file:
            authority = file.read()
        # Lines of a value in Java's properties syntax.
        trusted = "\\n\\\n".join(authority.strip().splitlines())
        return (
            f"bootstrap.servers={servers}\n"
            f"security.protocol={_LISTENER}\n"
            f"sasl.mechanism={_MECHANISM}\n"
            f'sasl.jaas.config={_MODULE} required username="{ADMIN}" password="{self.password}";\n'
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.certificates={trusted}\n"
        )


def secure(given: Mapping[str, str], listen: str | None, data: str) -> Secured:
    """Return what `--secure` adds to the settings that were given; make it where it is not there.

    Raises `ConfigError` for settings of the same things, or files that cannot be used.
    """
    for name in given:
        if any(name == own or (own.endswith(".") and name.startswith(own)) for own in _OWN):
            raise ConfigError(f"{name} does not go together with --secure, which sets it; leave one of the two out")
    host, port = parse_address(listen or DEFAULT_LISTEN)
    advertised = given.get("advertised.listeners")
    if advertised is None:
        advertised = f"{_LISTENER}://{join_address(_name_for_clients(host), port)}"
    folder = f"{os.path.abspath(data)}-secure"
    known_as = parse_listener(advertised).host
    password, is_new = _make(folder, [known_as, *_names_of_this_machine(host)])
    settings = {
        "listeners": f"{_LISTENER}://{join_address(host, port)}",
        "advertised.listeners": advertised,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": os.path.join(folder, _BROKER),
        "authorizer.class.name": "standard",
        "super.users": ";".join(filter(None, [f"User:{ADMIN}", given.get("super.users")])),
        "delegation.token.secret.key": _read(os.path.join(folder, _TOKENS)).decode().strip(),
    }
    return Secured(folder, settings, password, is_new)


def _make(folder: str, names: list[str]) -> tuple[str, bool]:
    """Make what is missing of the folder; return the administrator's password, and whether it is new."""
    from barnabas.broker.security.certificate_authority import CertificateAuthority

    now = datetime.now(UTC)
    names = list(dict.fromkeys(names))
    paths = {name: os.path.join(folder, name) for name in (_AUTHORITY_KEY, AUTHORITY, _BROKER, _ADMIN_FILE, _TOKENS)}
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not os.path.exists(paths[AUTHORITY]):
            made = CertificateAuthority.make(now)
            _write(paths[_AUTHORITY_KEY], made.key_pem)
            _write(paths[AUTHORITY], made.certificate_pem)
        authority = CertificateAuthority.load(_read(paths[_AUTHORITY_KEY]), _read(paths[AUTHORITY]))
        if not os.path.exists(paths[_BROKER]) or not authority.is_current(_read(paths[_BROKER]), names, now):
            _write(paths[_BROKER], authority.issue(names, now))
        if not os.path.exists(paths[_TOKENS]):
            _write(paths[_TOKENS], secrets.token_urlsafe(32).encode())
    except (OSError, ValueError) as problem:
        raise ConfigError(
            f"--secure: {folder} cannot be used: {problem}; mend it, or move it away to have all made anew"
        ) from problem
    if os.path.exists(paths[_ADMIN_FILE]):
        return _password_in(paths[_ADMIN_FILE]), False
    return secrets.token_urlsafe(24), True


def issue(folder: str, file: str, names: Sequence[str], now: datetime) -> str:
    """Issue a certificate with which a node comes to others, too, if the file has none that is valid; its path.

    Raises `ConfigError` where the authority in the folder cannot be used.
    """
    from barnabas.broker.security.certificate_authority import CertificateAuthority

    path = os.path.join(folder, file)
    try:
        key, certificate = (_read(os.path.join(folder, one)) for one in (_AUTHORITY_KEY, AUTHORITY))
        authority = CertificateAuthority.load(key, certificate)
        if not os.path.exists(path) or not authority.is_current(_read(path), names, now):
            _write(path, authority.issue(names, now, is_client=True))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"--secure: no certificate can be issued into {path}: {problem}") from problem
    return path


def own_secret(folder: str, file: str) -> str:
    """Return a secret that lies in the folder, and is made where it is missing. Raises `ConfigError`."""
    path = os.path.join(folder, file)
    try:
        if not os.path.exists(path):
            _write(path, secrets.token_urlsafe(32).encode())
        return _read(path).decode().strip()
    except OSError as problem:
        raise ConfigError(f"--secure: {path} cannot be used: {problem}") from problem


def _password_in(path: str) -> str:
    from barnabas.network.security.jaas_config import parse_jaas_config

    try:
        return parse_jaas_config(read_properties(path)["sasl.jaas.config"]).options["password"]
    except KeyError:
        raise ConfigError(
            f"--secure: {path} has no sasl.jaas.config with the administrator's password; put it back, or delete the "
            "file to give the administrator a new one"
        ) from None


def _write(path: str, content: bytes) -> None:
    """Write a file that only its owner may read; it is there whole or not at all."""
    descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    os.replace(f"{path}.new", path)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _name_for_clients(host: str) -> str:
    """Return by what others reach this machine: the host that was given, its full name, or its address."""
    if host not in ("", "0.0.0.0", "::"):  # noqa: S104 - what was given, not bound here
        return host
    name = socket.getfqdn()
    return name if _is_reachable_as(name) else _outgoing_address() or "localhost"


def _is_reachable_as(name: str) -> bool:
    """Whether a name leads to an address of this machine that is not the loopback's."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)}
    except OSError:
        return False
    return any(not is_loopback(address) and _is_mine(address) for address in found)


def _is_mine(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _outgoing_address() -> str | None:
    """Return the address that this machine's packets leave with; none is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _names_of_this_machine(host: str) -> list[str]:
    given = [] if host in ("", "0.0.0.0", "::") else [host]  # noqa: S104 - what was given, not bound here
    outgoing = _outgoing_address()
    return [*given, "localhost", socket.getfqdn(), socket.gethostname(), "127.0.0.1", "::1", *filter(None, [outgoing])]
