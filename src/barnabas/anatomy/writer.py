"""`RecordingWriter`: writes what a process does into a recording while it goes on."""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from barnabas.anatomy import recording
from barnabas.anatomy.clocks import of_this_machine
from barnabas.anatomy.recorder import Recorder

log = logging.getLogger("barnabas.anatomy")

#: So often events go to the file, in seconds.
INTERVAL = 0.25


class RecordingWriter:
    """Takes the events of a recorder to a file, a few times a second, until `close` or `recording.MOST_EVENTS`.

    Raises `OSError` when the file cannot be made; a later failure of the disk ends the recording with a warning, and
    harms nothing else. `on_end()` is called when nothing is written any more.
    """

    def __init__(self, path: Path, title: str, recorder: Recorder, on_end: Callable[[], object]) -> None:
        self._on_end = on_end
        self._path = path
        self._recorder = recorder
        self._left = recording.MOST_EVENTS
        self._stream: TextIO = path.open("w", encoding="utf-8")
        self._stream.write(json.dumps(recording.header(title, 0, of_this_machine())) + "\n")
        self._stream.flush()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="barnabas-anatomy", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left, and close the file. A second call does nothing."""
        if not self._is_over.is_set():
            self._is_over.set()
            self._thread.join()

    def _run(self) -> None:
        try:
            with self._stream:
                while not self._is_over.wait(INTERVAL) and self._left > 0:
                    self._write()
                self._write()
        except OSError as error:
            log.warning("%s: recording has ended, the file cannot be written: %s", self._path, error.strerror)
        except Exception:
            log.exception("%s: recording has ended by a fault of barnabas", self._path)
        self._on_end()

    def _write(self) -> None:
        events = self._recorder.drain()[: self._left]
        self._left -= len(events)
        self._stream.writelines(recording.lines(events))
        self._stream.flush()
        if self._left <= 0:
            log.warning("%s: recording has ended after %d events", self._path, recording.MOST_EVENTS)


def begin(directory: str, what: str, on_end: Callable[[], object]) -> Recorder | None:
    """Write what a recorder gets into a file of its own in a directory, until this process ends.

    A directory that cannot be written is a warning, and there is no recorder.
    """
    path = Path(directory) / f"{what}-{os.getpid()}.jsonl"
    recorder = Recorder()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = RecordingWriter(path, f"{what}, process {os.getpid()}", recorder, on_end)
    except OSError as error:
        log.warning("%s: nothing is recorded: %s", path, error.strerror)
        return None
    writer.start()
    atexit.register(writer.close)
    return recorder
