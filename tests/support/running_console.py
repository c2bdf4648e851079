"""A running console, as its command starts it, and those who are logged in to it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

TIMEOUT = 120.0


class Visitor:
    """One who asks a console's API as its own page does, with a session of their own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.cookie = ""

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def log_in_as(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512", status: int = 200) -> Self:
        """Log in to the cluster."""
        document = {"user": user, "password": password, "mechanism": mechanism}
        headers = {"Content-Type": "application/json", "Origin": self.url}
        found, given, body = self.ask("POST", "/api/login", json.dumps(document), headers)
        assert found == status, body
        if status == 200:
            self.cookie = given["set-cookie"].partition(";")[0]
        return self

    def ask(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None,
        begun: Callable[[], object] = lambda: None,
    ) -> tuple[int, dict[str, str], bytes]:  # fmt: skip
        """Status, headers by name in lower case, and body; `begun` is called when the body is about to come."""
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT)
        given = {"Cookie": self.cookie, **(headers or {})}
        try:
            connection.request(method, path, body, given)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            begun()
            return response.status, found, response.read()
        finally:
            connection.close()

    def get(self, path: str, status: int = 200) -> Any:
        """The document at a path."""
        found, _, body = self.ask("GET", path)
        assert found == status, body
        return json.loads(body)

    def post(self, path: str, document: Any, status: int = 200) -> Any:
        """What a change gives."""
        headers = {"Content-Type": "application/json", "Origin": self.url}
        found, _, body = self.ask("POST", path, json.dumps(document), headers)
        assert found == status, body
        return json.loads(body)

    def events(self, kinds: str, wanted: str) -> Any:
        """The first state of a kind in a stream of events."""
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT)
        try:
            connection.request("GET", f"/api/events?kinds={kinds}", headers={"Cookie": self.cookie})
            response = connection.getresponse()
            kind = ""
            while line := response.readline().decode():
                name, _, value = line.rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind == wanted:
                    return json.loads(value)
        finally:
            connection.close()
        raise AssertionError(f"the stream ended without {wanted}")

    def stream(self, path: str, begun: Callable[[], object] = lambda: None) -> list[tuple[str, Any]]:
        """All events of a stream that ends, in order."""
        status, _, body = self.ask("GET", path, begun=begun)
        assert status == 200, body
        events = [part.split("\n", 1) for part in body.decode().split("\n\n") if part.startswith("event: ")]
        return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in events]


class RunningConsole(Visitor):
    """`barnabas console` in a process of its own.

    Without `bootstrap_servers` it is `barnabas anatomy`, the console of recordings alone.
    """

    def __init__(self, bootstrap_servers: str | None, *options: str, folder: Path | None = None) -> None:
        words = ["anatomy"] if bootstrap_servers is None else ["console", "-b", bootstrap_servers]
        command = [sys.executable, "-m", "barnabas.cli.main", *words, "--listen", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
        self.link = self.next_link()
        super().__init__(urlsplit(self.link).netloc)

    def next_link(self) -> str:
        """The link of the next line that it prints."""
        assert self.process.stdout is not None
        while " at http" not in (line := self.process.stdout.readline()):
            if not line:
                raise AssertionError(f"the console did not start: {self.process.communicate()[1]}")
        return line.split()[2]

    def log_in(self) -> Self:
        """Use the link up."""
        parts = urlsplit(self.link)
        status, headers, _ = self.ask("GET", f"{parts.path}?{parts.query}")
        assert status == 303
        self.cookie = headers["set-cookie"].partition(";")[0]
        return self

    def log(self) -> str:
        """End it; what it has told its operator."""
        self.process.terminate()
        return self.process.communicate(timeout=TIMEOUT)[1]

    def close(self) -> int:
        """End it; its exit code."""
        self.process.terminate()
        self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
