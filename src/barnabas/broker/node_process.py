"""A node as a child process: `barnabas up`, which ends when its parent does."""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING

from barnabas.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

#: How long a node may take to get ready; recovering large logs after a crash is what takes long.
START_TIMEOUT = 60.0
#: How long a child may take to end cleanly before it is killed, in seconds.
STOP_TIMEOUT = 120.0
#: The exit code for settings that make no sense.
_USAGE = 2


class NodeProcess:
    """`barnabas up` with options, as a child that ends when its standard input does: it never outlives its parent.

    With `shares_errors` it writes to the standard error of its parent, else `log_text` has what it wrote;
    `has_own_session`: Ctrl-C at the terminal is for the parent only.
    """

    def __init__(self, options: Sequence[str], *, shares_errors: bool = False, has_own_session: bool = False) -> None:
        import subprocess
        import tempfile

        command = [sys.executable, "-m", "barnabas.cli.main", "up", *options, "--until-stdin-ends"]
        # Closed with the child's home, not with this block.
        self._log: IO[bytes] | None = None if shares_errors else tempfile.TemporaryFile()  # noqa: SIM115
        self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - this interpreter, with our module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=has_own_session,
        )
        self.address = ""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the process has ended, as `subprocess` says it; None while it runs."""
        return self._process.poll()

    def log_text(self) -> str:
        """Return what the child wrote to its standard error; empty where that is its parent's."""
        if self._log is None:
            return ""
        # The child writes where this file stands, for they share it: so it is read without moving.
        descriptor = self._log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def wait_until_ready(self) -> str:
        """Return the first address that the node listens on. Raises `ConfigError` and `KafkaError`; it is gone then."""
        try:
            self.address = self._read_address()
        except BaseException:
            self.kill()
            raise
        return self.address

    def terminate(self) -> None:
        """Ask the process to end cleanly; `stop` waits for it."""
        # Not by closing its standard input: processes forked meanwhile may hold the other end too.
        self._process.terminate()

    def stop(self) -> None:
        """End the process cleanly."""
        import subprocess

        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._release()

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would."""
        self._process.kill()
        self._release()

    def _release(self) -> None:
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                stream.close()

    def _read_address(self) -> str:
        import select

        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT)
        line = self._process.stdout.readline().decode() if ready else ""
        if not line.startswith("listening on "):
            if not ready:
                raise KafkaError(f"the broker was not ready within {START_TIMEOUT:.0f} s: {self.log_text()}")
            self._process.wait(STOP_TIMEOUT)
            kind = ConfigError if self._process.returncode == _USAGE else KafkaError
            why = self.log_text().strip().rpartition("barnabas up: ")[2]
            raise kind(why or f"the broker ended with code {self._process.returncode}")
        return line.removeprefix("listening on ").partition(",")[0]
