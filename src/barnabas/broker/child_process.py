"""A child process that a node or a server runs in, and what it wrote."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

#: How long a child may take to get ready; recovering large logs after a crash is what takes long.
START_TIMEOUT = 60.0
#: How long a child may take to end cleanly before it is killed, in seconds.
STOP_TIMEOUT = 120.0


class ChildProcess:
    """A child, whose standard input this process holds open.

    With `shares_errors` it writes to the standard error of its parent, else `log_text` has what it wrote there.
    `reads_output`: its standard output is for its parent to read; else it goes into the log, or nowhere without one.
    `has_own_session`: Ctrl-C at the terminal is for the parent only.
    """

    def __init__(
        self, command: Sequence[str], *, shares_errors: bool, reads_output: bool, has_own_session: bool
    ) -> None:
        import subprocess
        import tempfile

        # Closed with the child's home, not with this block.
        self._log: IO[bytes] | None = None if shares_errors else tempfile.TemporaryFile()  # noqa: SIM115
        self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - commands of our own
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if reads_output else self._log or subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=has_own_session,
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the process has ended, as `subprocess` says it; None while it runs."""
        return self._process.poll()

    def log_text(self) -> str:
        """Return what the child wrote; empty where its standard error is its parent's."""
        if self._log is None:
            return ""
        # The child writes where this file stands, for they share it: so it is read without moving.
        descriptor = self._log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def terminate(self) -> None:
        """Ask the process to end cleanly; `stop` waits for it."""
        # Not by closing its standard input: processes forked meanwhile may hold the other end too.
        self._process.terminate()

    def stop(self) -> None:
        """End the process cleanly."""
        import subprocess

        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT)
        self.kill()

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would; one that has ended is let go of."""
        self._process.kill()
        self._release()

    def _release(self) -> None:
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                stream.close()
