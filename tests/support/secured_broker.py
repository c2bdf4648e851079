"""A `barnabas up` with listeners that want TLS or SASL, and clients' settings for them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class SecuredBroker:
    """A broker in a process of its own, on `server.properties`; `servers` are the addresses by listener."""

    def __init__(self, folder: Path, settings: Mapping[str, str], *arguments: str) -> None:
        properties = folder / "server.properties"
        lines = [f"{name}={value}" for name, value in settings.items()]
        properties.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "barnabas.cli.main", "up", "--config", str(properties)]
        command += ["--data", str(folder / "data"), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self._log: list[str] = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        addresses = line.removeprefix("listening on ").partition(", data in ")[0].split(", ")
        controllers = settings.get("controller.listener.names", "CONTROLLER").split(",")
        names = [text.partition("://")[0].strip() for text in settings["listeners"].split(",")]
        self.servers = dict(zip([name for name in names if name not in controllers], addresses, strict=False))

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        self._log.extend(self.process.stderr)

    @property
    def log(self) -> str:
        """What the broker has told its operator so far."""
        return "".join(self._log)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self._reader.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@contextmanager
def secured_broker(folder: Path, settings: Mapping[str, str], *arguments: str) -> Iterator[SecuredBroker]:
    """Start it, and stop it at the end. Fails with its log where it does not come up."""
    folder.mkdir(parents=True, exist_ok=True)
    broker = SecuredBroker(folder, settings, *arguments)
    try:
        if broker.process.poll() is not None:
            broker.stop()
            raise AssertionError(f"the broker has not started: {broker.log}")
        yield broker
    finally:
        broker.stop()
