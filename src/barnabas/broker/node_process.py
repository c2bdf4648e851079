"""A node as a child process: `barnabas up`, which ends when its parent does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from barnabas.broker.child_process import START_TIMEOUT, STOP_TIMEOUT, ChildProcess
from barnabas.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The exit code for settings that make no sense.
_USAGE = 2


class NodeProcess(ChildProcess):
    """`barnabas up` with options, as a child that ends when its standard input does: it never outlives its parent."""

    def __init__(self, options: Sequence[str], *, shares_errors: bool = False, has_own_session: bool = False) -> None:
        """See `ChildProcess`."""
        command = [sys.executable, "-m", "barnabas.cli.main", "up", *options, "--until-stdin-ends"]
        super().__init__(command, shares_errors=shares_errors, reads_output=True, has_own_session=has_own_session)
        self.address = ""

    def wait_until_ready(self) -> str:
        """Return the first address that the node listens on. Raises `ConfigError` and `KafkaError`; it is gone then."""
        try:
            self.address = self._read_address()
        except BaseException:
            self.kill()
            raise
        return self.address

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
