"""Kafka's command-line tools in one JVM that stays (tests/interop/java/Tools.java), as starting one takes a second."""

from __future__ import annotations

import base64
import subprocess
from types import TracebackType
from typing import NamedTuple, Self

from tests.peers import foreign_programs


class Output(NamedTuple):
    """What a tool left; `code` 124 means that it took too long."""

    code: int
    out: str
    err: str


class JavaTools:
    """A context manager; `run` is one call of a tool."""

    def __init__(self, seconds: int = 60) -> None:
        """Start the JVM; a tool is given up after so many seconds. Raises CannotBuildError."""
        self._process = subprocess.Popen(
            [
                "java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp", foreign_programs.java_class_path(), "Tools", str(seconds),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Output:
        """Run `main` of a class, such as org.apache.kafka.tools.TopicCommand, until it ends."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the JVM has no pipes")
        self._process.stdin.write(" ".join(map(_encode, (stdin, tool, *arguments))) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if not answer:
            raise RuntimeError(f"the JVM ended with {self._process.wait()} in {tool}")
        return Output(int(answer[0]), _decode(answer[1]), _decode(answer[2]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode() or "-"


def _decode(text: str) -> str:
    return "" if text == "-" else base64.b64decode(text).decode()
