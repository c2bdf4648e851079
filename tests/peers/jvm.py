"""How the JVMs of peers are started, beside what each asks for."""

from __future__ import annotations

import os

#: For one that lives for seconds: it compiles less, and collects garbage without threads of its own. Apache Kafka then
#: starts in 4 s of CPU, not in 6.6.
SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_NAME = "BARNABAS_TEST_JVM"


def live_short() -> None:
    """Have this process, and those that it starts, start JVMs that live for seconds; benchmarks do not ask for it."""
    os.environ.setdefault(_NAME, " ".join(SHORT_LIFE))


def java(*arguments: str) -> list[str]:
    """Return the command of a JVM with these options, class path, class and arguments."""
    return ["java", *os.environ.get(_NAME, "").split(), *arguments]
