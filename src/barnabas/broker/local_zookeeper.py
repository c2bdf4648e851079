"""The ZooKeeper of a cluster on this machine: one of its own, a child process in Java, or one that runs already."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.broker.child_process import START_TIMEOUT, ChildProcess
from barnabas.broker.local_control import ZOOKEEPER
from barnabas.broker.local_ports import free_address
from barnabas.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.local_cluster_security import ClusterSecurity
    from barnabas.broker.local_control import Run

#: A broker that was killed has to wait at its next start until its old session has expired.
_SESSION_MS, _TICK_MS = 3000, 500
_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
#: Becomes the program in its arguments, and ends it some seconds after its own standard input has ended: the brokers,
#: which end then too, leave while ZooKeeper is there.
_UNTIL_STDIN_ENDS = 'exec 3<&0; { cat <&3 >/dev/null; sleep 8; kill -9 $$; } & exec "$@" 3<&- </dev/null'
_LOOK = 0.05
_SASL = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
_DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
#: What shows a ZooKeeper that runs already who comes; and what a broker is given for a server of the cluster's own.
_LOGINS = ("zookeeper.sasl.jaas.config", "zookeeper.ssl.keystore.location")
_OF_LOGIN = ("zookeeper.sasl.jaas.config", "zookeeper.set.acl")
_USER, _SECRET, _JAAS = "barnabas", "zookeeper.key", "zookeeper-jaas.conf"


class LocalZooKeeper:
    """Implements `LocalControl` for brokers under ZooKeeper, one of which they elect controller.

    `connect` is what `zookeeper.connect` says, the znode is made when it is missing; "" is for a server of its own,
    whose data lies in `data_dir`, and which in a cluster with `security` lets in only who logs in. Raises `ConfigError`
    where Java, ZooKeeper or kazoo is missing, or a login that is needed.
    """

    kind = "ZooKeeper"
    own_settings: tuple[str, ...] = (
        "process.roles",
        "node.id",
        "broker.id",
        "zookeeper.connect",
        "inter.broker.protocol.version",
    )

    def __init__(
        self,
        data_dir: str,
        connect: str,
        security: ClusterSecurity | None,
        settings: Mapping[str, str],
        *,
        shares_errors: bool,
    ) -> None:
        _check_kazoo()
        if os.path.isdir(f"{data_dir}/controller-100"):
            raise ConfigError(
                f"{data_dir} has a cluster whose metadata its controllers keep: start it without --zookeeper, or "
                "choose another directory"
            )
        self._data_dir = data_dir
        self._shares_errors = shares_errors
        self._connect = connect
        self._security = security
        #: With what the brokers log in to a server of their own, "" where everyone on this machine may come.
        self._password = ""
        self.defaults: dict[str, object] = {}
        self.addresses: dict[int, str] = {}
        self._command: list[str] = []
        if connect and security is not None:
            _check_login(settings)
            self.defaults["zookeeper.set.acl"] = "true"
        if not connect:
            from barnabas.broker.zookeeper_jars import class_path, java

            self._command = [java(), "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
            if security is not None:
                self._password = security.secret(_SECRET)
                self.own_settings += _OF_LOGIN
                self._command.append(f"-Djava.security.auth.login.config={data_dir}/{_JAAS}")
            self._command += ["-cp", class_path(), _MAIN]
            self.defaults["zookeeper.session.timeout.ms"] = _SESSION_MS
            self.addresses[ZOOKEEPER] = self._connect = free_address()
        os.makedirs(data_dir, exist_ok=True)

    def of_broker(self, node_id: int) -> Mapping[str, object]:
        """See `LocalControl`."""
        return {
            "broker.id": node_id,
            "zookeeper.connect": self._connect,
            "inter.broker.protocol.version": "3.9",
            **self._login(),
        }

    def _login(self) -> dict[str, object]:
        if not self._password:
            return {}
        login = f'{_DIGEST} required username="{_USER}" password="{self._password}";'
        return dict(zip(_OF_LOGIN, (login, "true"), strict=True))

    def admit_users(self, settings: Mapping[str, object]) -> None:
        """See `LocalControl`: writes them to `/config/users`, as one of the brokers would."""
        if self._security is None:
            return
        import asyncio

        from barnabas.broker.config import BrokerConfig
        from barnabas.broker.membership.membership import zookeeper_session
        from barnabas.broker.zookeeper.first_users import admit_users

        security, names = self._security, ("broker.id", "inter.broker.protocol.version")
        own = {name: value for name, value in settings.items() if name in names or name.startswith("zookeeper.")}

        async def admit() -> None:
            await admit_users(*zookeeper_session(BrokerConfig(own)), security.users, replace=security.has_new_users)

        asyncio.run(admit())

    def launch(self, node_id: int, run: Run) -> ZooKeeperProcess:
        """See `LocalControl`."""
        host, _, port = self._connect.rpartition(":")
        settings = {
            "dataDir": f"{self._data_dir}/zookeeper",
            "clientPort": port,
            "clientPortAddress": host,
            "tickTime": _TICK_MS,
            "maxSessionTimeout": 60_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "autopurge.purgeInterval": 1,
        }
        if self._password:
            settings |= {"authProvider.1": _SASL, "sessionRequireClientSASLAuth": "true"}
            _write_secret(
                f"{self._data_dir}/{_JAAS}", f'Server {{ {_DIGEST} required user_{_USER}="{self._password}"; }};\n'
            )
        path = f"{self._data_dir}/zookeeper.cfg"
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())
        return ZooKeeperProcess([*self._command, path], self._connect, shares_errors=self._shares_errors)


class ZooKeeperProcess(ChildProcess):
    """Implements `ChildNode` by a server in Java, which ends when this process does."""

    def __init__(self, command: list[str], address: str, *, shares_errors: bool) -> None:
        self._address = address
        command = ["/bin/sh", "-c", _UNTIL_STDIN_ENDS, "sh", *command]
        super().__init__(command, shares_errors=shares_errors, reads_output=False, has_own_session=True)

    def wait_until_ready(self) -> str:
        """See `ChildNode`."""
        host, _, port = self._address.rpartition(":")
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                socket.create_connection((host, int(port)), 1).close()
            except OSError:
                code = self.exit_code
                if code is None and time.monotonic() < deadline:
                    time.sleep(_LOOK)
                    continue
                why = f"ended with code {code}" if code is not None else f"was not ready within {START_TIMEOUT:.0f} s"
                said = self.log_text().strip()[-2000:]
                self.kill()
                raise KafkaError(f"the ZooKeeper of the cluster {why}: {said or 'it said nothing'}") from None
            return self._address

    def kill(self) -> None:
        """See `ChildNode`: ends the shell that waits for the end of the input, too."""
        import signal

        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._release()


def _write_secret(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _check_login(settings: Mapping[str, str]) -> None:
    """Raise `ConfigError` where everyone who reaches a ZooKeeper could change the users of a secure cluster."""
    if not any(settings.get(name) for name in _LOGINS):
        raise ConfigError(
            f"--secure: users and ACLs lie in ZooKeeper, which has to know the brokers by a login: add --set "
            f"{_LOGINS[0]}='{_DIGEST} required username=... password=...;' or --set {_LOGINS[1]}=FILE with a "
            "certificate; or use --zookeeper alone for a server of the cluster's own"
        )


def _check_kazoo() -> None:
    from importlib.util import find_spec

    if find_spec("kazoo") is None:
        raise ConfigError(
            "brokers under ZooKeeper need kazoo, which is not installed: pip install 'barnabas[zookeeper]'"
        )
