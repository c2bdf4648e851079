"""What a verification has found so far, kept in a file: a run that is ended goes on where it was."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path


class Results:
    """A JSON object a line: a function, the way to break it that was tried to its end, what was wrong or skipped.

    Without a path it keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.complaints: list[str] = []
        self.skipped: set[str] = set()
        self._ways: defaultdict[str, set[str]] = defaultdict(set)
        self._read()

    def _read(self) -> None:
        if self._path is None or not self._path.exists():
            return
        text = self._path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            # The run was ended while it wrote the last line.
            self._path.write_text(whole, encoding="utf-8")
        for line in map(json.loads, whole.splitlines()):
            self._ways[line["function"]].add(line["broken"])
            self.complaints += line["wrong"]
            self.skipped.update(line["skipped"])

    def has(self, function: str, how: str) -> bool:
        """Whether the file already has what became of a function that was broken in this way."""
        return how in self._ways[function]

    def add(self, function: str, how: str, wrong: list[str], skipped: list[str]) -> None:
        """Keep what one run said."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = {"function": function, "broken": how, "wrong": wrong, "skipped": skipped}
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
