"""What to install for the tests that were skipped, as a skip that nobody counts is a proof that nobody runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

#: What other people's software needs, as the reasons for skips name it, and how Debian gets it.
PROGRAMS = {
    "Java": "apt-get install openjdk-17-jdk-headless",
    "javac": "apt-get install openjdk-17-jdk-headless",
    "Node": "apt-get install nodejs npm",
    "Maven": "apt-get install maven",
    "C++ compiler": "apt-get install g++ make pkg-config",
    "libzstd": "apt-get install libzstd-dev zlib1g-dev",
    "Go": "Go 1.26 or later from https://go.dev/dl",
}


def without_class(reason: str) -> str:
    """Why a test was skipped, without the class of the exception that said so."""
    return re.sub(r"^[\w.]*(?:Skipped|Error): ", "", reason)


def missing_programs(reasons: Mapping[str, int]) -> str:
    """One line on the tests that were skipped for lack of a program, and what to install; empty when none was."""
    tests: Counter[str] = Counter()
    for reason, count in reasons.items():
        found = next((name for name in PROGRAMS if re.search(rf"\b{re.escape(name)}\b.*\bmissing\b", reason)), None)
        if found:
            tests[found] += count
    if not tests:
        return ""
    lacking = ", ".join(f"{name} ({count})" for name, count in tests.most_common())
    remedies = "; ".join(dict.fromkeys(PROGRAMS[name] for name in tests))
    return f"NOT RUN: {tests.total()} tests, for lack of {lacking}. To run them: {remedies}"
