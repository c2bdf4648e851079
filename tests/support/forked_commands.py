"""Commands of `barnabas`, each in a process that is forked by one which has imported what they need.

To start Python and import a client takes 0.2 s of CPU, to fork a few milliseconds. What a command says, reads and gives
back is that of a process of its own; how one is started, signalled and ended is left to tests that start it as a shell
does.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module

#: The modules of `barnabas.cli` whose commands are run this way.
IMPORTED = ("cluster", "completion", "config", "consume", "group", "produce", "topic")


class ForkedCommands:
    """The process that forks, and how to ask it for a command; one at a time."""

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.support.forked_commands", str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def run(
        self, arguments: tuple[str, ...], environment: Mapping[str, str], stdin: str, seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. Raises TimeoutError when it takes longer; nothing more can be run then."""
        with (
            tempfile.TemporaryFile("w+") as given,
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
        ):
            given.write(stdin)
            given.seek(0)
            order = json.dumps([arguments, {**environment}]).encode() + b"\n"
            self._link.settimeout(seconds)
            socket.send_fds(self._link, [order], [given.fileno(), out.fileno(), err.fileno()])
            code = int(self._link.recv(100))
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())

    def close(self) -> None:
        """End the process, and a command that has not ended."""
        self._link.close()
        self._process.kill()
        self._process.wait()


def serve(link: socket.socket) -> None:
    """Fork for each order until the other end is closed."""
    import barnabas

    for name in IMPORTED:
        import_module(f"barnabas.cli.{name}")
    _ = barnabas.AdminClient, barnabas.Consumer, barnabas.Producer
    gc.freeze()
    while True:
        order, files, _, _ = socket.recv_fds(link, 1 << 20, 3)
        while order and not order.endswith(b"\n"):
            order += link.recv(1 << 20)
        if not order:
            return
        pid = os.fork()
        if not pid:
            link.close()
            _become(*json.loads(order), files)
        for file in files:
            os.close(file)
        link.send(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _become(arguments: list[str], environment: dict[str, str], files: list[int]) -> None:
    from barnabas.cli.main import main

    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    sys.exit(main())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
