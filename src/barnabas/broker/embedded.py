"""`Broker`: a broker for the life of a `with` block, in a child process or in a thread of this one."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import IO, TYPE_CHECKING, Any

from barnabas.errors import ConfigError, IllegalStateError, KafkaError

if TYPE_CHECKING:
    import subprocess
    import threading
    from types import TracebackType

    from barnabas.broker.runner import BrokerRunner

#: How long a broker may take to get ready; recovering large logs after a crash is what takes long.
START_TIMEOUT = 60.0
#: How long a child may take to end cleanly before it is killed, in seconds.
STOP_TIMEOUT = 120.0
#: What differs from Kafka's defaults: a first rebalance need not wait for members that are started by hand.
DEFAULTS = {"group.initial.rebalance.delay.ms": 0}
#: The exit code for settings that make no sense.
_USAGE = 2


class Broker:
    """A running broker on a free port of this machine.

    Its data lies in `data_dir`, or in a temporary directory that is removed with it. `settings` are Kafka's broker
    settings with `_` for `.` (`num_partitions=6`), or a dict with the dots as `config`; of the defaults only
    group.initial.rebalance.delay.ms differs (0, so that a group's first member need not wait). By default it is a child
    process, which dies with this one; `in_process=True` runs it in a thread. It is started by the constructor and can
    be used as a context manager.

    Attributes: `bootstrap_servers` ("127.0.0.1:port"), `data_dir`, `pid` (of the child; None in process).

    Raises `KafkaError` when it cannot start; the message says why.

    """

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        listen: str = "127.0.0.1:0",
        in_process: bool = False,
        config: dict[str, Any] | None = None,
        **settings: Any,
    ):
        self.in_process = in_process
        given = {name.replace("_", "."): value for name, value in {**(config or {}), **settings}.items()}
        self._settings = {**DEFAULTS, **given}
        self._temporary = data_dir is None
        self.data_dir = _temporary_directory() if data_dir is None else os.path.abspath(os.fspath(data_dir))
        self._listen = listen
        self._home: _Child | _Thread | None = None
        try:
            self.start()
        except BaseException:
            self._remove_data()
            raise
        atexit.register(_close_forgotten, weakref.ref(self))

    def start(self) -> None:
        """Start again after `stop` or `kill`, on the same port and the same data."""
        if self._home is not None:
            raise IllegalStateError("the broker is running")
        if self._temporary and not os.path.isdir(self.data_dir):
            os.makedirs(self.data_dir)
        kind = _Thread if self.in_process else _Child
        self._home = kind(self.data_dir, self._listen, self._settings)
        self._listen = self._home.address

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: host and port."""
        return self._listen

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return int(self._listen.rpartition(":")[2])

    @property
    def pid(self) -> int | None:
        """The child's process id; None in process, and when the broker is not running."""
        return self._home.pid if isinstance(self._home, _Child) else None

    def log_text(self) -> str:
        """Return what the child wrote to its standard error since it was started; empty in process."""
        return self._home.log_text() if isinstance(self._home, _Child) else ""

    def stop(self) -> None:
        """End the broker cleanly; its data stays until `close`. Stopping twice is harmless."""
        home, self._home = self._home, None
        if home is not None:
            home.stop()

    def kill(self) -> None:
        """End the child with SIGKILL, as a crash would. Raises IllegalStateError in process."""
        if not isinstance(self._home, _Child):
            raise IllegalStateError("only a running broker in a child process can be killed")
        home, self._home = self._home, None
        home.kill()

    def restart(self) -> None:
        """Stop (if it is running) and start again, on the same port and the same data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove the data unless a `data_dir` was given."""
        if self._temporary and isinstance(self._home, _Child):
            # The data will not be read again: what a clean end would flush and sync goes with it.
            self.kill()
        self.stop()
        self._remove_data()

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "running" if self._home is not None else "stopped"
        return f"<Broker {self.bootstrap_servers} {state}, data in {self.data_dir}>"

    def _remove_data(self) -> None:
        if self._temporary:
            import shutil

            shutil.rmtree(self.data_dir, ignore_errors=True)


def _close_forgotten(reference: weakref.ref[Broker]) -> None:
    broker = reference()
    if broker is not None:
        broker.close()


class _Child:
    """`barnabas up` as a child that ends when its standard input does, so that it never outlives its parent."""

    def __init__(self, data_dir: str, listen: str, settings: dict[str, Any]):
        import subprocess
        import tempfile

        command = [sys.executable, "-m", "barnabas.cli.main", "up", "--listen", listen, "--data", data_dir]
        command += ["--until-stdin-ends"]
        for name, value in settings.items():
            command += ["--set", f"{name}={_text(value)}"]
        # Closed with the child's home, not with this block.
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - this interpreter, with our module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        try:
            self.address = self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def log_text(self) -> str:
        # The child writes where this file stands, for they share it: so it is read without moving.
        descriptor = self._log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def stop(self) -> None:
        import subprocess

        # Not by closing its standard input: processes forked meanwhile may hold the other end too.
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._release()

    def kill(self) -> None:
        self._process.kill()
        self._release()

    def _release(self) -> None:
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            assert stream is not None
            stream.close()

    def _wait_until_ready(self) -> str:
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


class _Thread:
    """A broker on an event loop in a thread of this process."""

    def __init__(self, data_dir: str, listen: str, settings: dict[str, Any]):
        import threading

        from barnabas.broker.config import BrokerConfig, join_address, parse_address

        listeners = f"PLAINTEXT://{join_address(*parse_address(listen))}"
        self._config = BrokerConfig({**settings, "listeners": listeners, "log.dirs": data_dir})
        self._data_dir = data_dir
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._runner: BrokerRunner | None = None
        self.address = listen
        self._thread: threading.Thread = threading.Thread(target=self._run, name="barnabas-broker", daemon=True)
        self._thread.start()
        self._ready.wait(START_TIMEOUT)
        if self._problem is not None:
            self._thread.join()
            raise self._problem

    def _run(self) -> None:
        from barnabas.broker.config import Listener
        from barnabas.broker.runner import BrokerRunner

        def on_ready(bound: list[Listener]) -> None:
            self.address = bound[0].address
            self._ready.set()

        try:
            self._runner = BrokerRunner(self._config, self._data_dir, on_ready, signals=False)
            self._runner.run()
        except BaseException as problem:  # noqa: BLE001 - handed to the thread that waits for the start
            self._problem = problem
        finally:
            self._ready.set()

    def stop(self) -> None:
        if self._runner is not None:
            self._runner.stop()
        self._thread.join(STOP_TIMEOUT)


def _temporary_directory() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="barnabas-")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)
