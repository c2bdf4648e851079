"""Nodes on machines of their own, as far as the network goes: each in a network namespace, joined by a bridge.

A machine "dies" when its link does: nothing comes from it any more, no reset and no refusal, though its process may be
killed meanwhile. Needs root and iproute2; `why_not()` says what is missing. All names have the id of the process that
made them, so what one has left that was killed is found, and removed, by the next.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self


class PlacedNode(Protocol):
    """A node that may run in a namespace, as those of `tests.peers` do."""

    port: int
    host: str
    bootstrap_servers: str
    prefix: tuple[str, ...]
    settings: dict[str, str]


#: Namespaces and links of a process, by its id; those of `why_not` among them.
_NAMESPACE = re.compile(r"^barnabas-(?:try-)?(\d+)(?:-\d+)?\b", re.MULTILINE)
_LINK = re.compile(r"^\d+: ((?:bb|bt|bv)(\d+)(?:-\d+)?)[@:]", re.MULTILINE)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _told(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True).stdout


def left_by(owner: int) -> tuple[list[str], list[str]]:
    """Return the namespaces and the links that a process has made, and not removed."""
    namespaces = [found[0] for found in _NAMESPACE.finditer(_told("netns", "list")) if int(found[1]) == owner]
    links = [found[1] for found in _LINK.finditer(_told("-o", "link", "show")) if int(found[2]) == owner]
    return namespaces, links


def remove_all_of(owner: int) -> None:
    """Remove what a process has made, and end what still runs in there."""
    namespaces, links = left_by(owner)
    for name in namespaces:
        for process in _told("netns", "pids", name).split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
    # A namespace that is deleted lets its links go some time later.
    for link in links:
        _told("link", "delete", "dev", link)
    for name in namespaces:
        _told("netns", "delete", name)


def remove_what_is_left() -> None:
    """Remove what processes have made that are no more: they were killed."""
    owners = {int(found[1]) for found in _NAMESPACE.finditer(_told("netns", "list"))}
    owners |= {int(found[2]) for found in _LINK.finditer(_told("-o", "link", "show"))}
    for owner in owners:
        if not Path(f"/proc/{owner}").exists():
            remove_all_of(owner)


def why_not() -> str | None:
    """Why there are no namespaces here; None when there are."""
    if shutil.which("ip") is None:
        return "the command ip is missing (apt-get install iproute2)"
    name = f"barnabas-try-{os.getpid()}"
    try:
        _ip("netns", "add", name)
    except subprocess.CalledProcessError as problem:
        return f"network namespaces cannot be made here: {problem.stderr.decode(errors='replace').strip()}"
    try:
        _ip("link", "add", "name", f"bt{os.getpid()}", "type", "veth", "peer", "name", "eth0", "netns", name)
    except subprocess.CalledProcessError as problem:
        return f"links between namespaces cannot be made here: {problem.stderr.decode(errors='replace').strip()}"
    finally:
        _ip("netns", "delete", name)
    return None


class Machines:
    """Namespaces and their links; a context manager. `gateway` is the address of all that runs outside of them.

    What is still running in a namespace when they end is killed.
    """

    def __init__(self) -> None:
        self._bridge = f"bb{os.getpid()}"
        self._network = f"10.213.{os.getpid() % 250 + 1}"
        self.gateway = f"{self._network}.1"
        self._numbers: dict[int, int] = {}

    def __enter__(self) -> Self:
        remove_what_is_left()
        try:
            _ip("link", "add", "name", self._bridge, "type", "bridge")
            _ip("address", "add", f"{self.gateway}/24", "dev", self._bridge)
            _ip("link", "set", "dev", self._bridge, "up")
        except BaseException:
            remove_all_of(os.getpid())
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_all_of(os.getpid())

    def place(self, nodes: Iterable[PlacedNode], outside: Iterable[int] = ()) -> None:
        """Give each node a machine, and tell all of them where the others are; `outside` are ports that stay here."""
        nodes = list(nodes)
        where = {node.port: self._add(node) for node in nodes} | dict.fromkeys(outside, self.gateway)
        for node in nodes:
            for name, value in node.settings.items():
                for port, address in where.items():
                    for here in ("127.0.0.1", "localhost"):
                        value = value.replace(f"{here}:{port}", f"{address}:{port}")
                node.settings[name] = value

    def _add(self, node: PlacedNode) -> str:
        number = self._numbers[node.port] = len(self._numbers) + 2
        name, link = f"barnabas-{os.getpid()}-{number}", self._link(number)
        address = f"{self._network}.{number}"
        _ip("netns", "add", name)
        _ip("link", "add", "name", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", "dev", link, "master", self._bridge, "up")
        for command in (
            ("address", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "dev", "lo", "up"),
            ("link", "set", "dev", "eth0", "up"),
            ("route", "add", "default", "via", self.gateway),
        ):
            _ip("-n", name, *command)
        node.host, node.bootstrap_servers = address, f"{address}:{node.port}"
        node.prefix = ("ip", "netns", "exec", name)
        return address

    @staticmethod
    def _link(number: int) -> str:
        return f"bv{os.getpid()}-{number}"

    def cut(self, node: PlacedNode) -> None:
        """Let nothing come from a machine any more, nor get there."""
        _ip("link", "set", "dev", self._link(self._numbers[node.port]), "down")

    def mend(self, node: PlacedNode) -> None:
        """Let it be reached again."""
        _ip("link", "set", "dev", self._link(self._numbers[node.port]), "up")
