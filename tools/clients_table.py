"""Prints docs/reference/clients.md: what Java's producer and consumers have, and what it is called here.

`python -m tools.clients_table` prints it, `python -m tools.clients_table --write` writes the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from barnabas.config.config_def import OUR_SETTINGS, definitions
from barnabas.config.support import IGNORED, SUPPORTED
from tools.clients_comparison import Entry, entries
from tools.java_clients import stored

PATH = Path(__file__).parent.parent / "docs" / "reference" / "clients.md"
_HEAD = """# Producer and consumers, beside Java's
Made from the code by `python -m tools.clients_table --write`; a test fails when it is stale. The classes and methods
are those of Apache Kafka {version}, as javap finds them (tools/java_clients.json), and each name on the right exists
here. Exceptions are in [errors](errors.md), the admin client in [admin](admin.md), Kafka Streams in
[streams](streams.md), what each setting does in [settings](settings.md).
"""
_SETTINGS = """
## Settings
Settings of Java's clients that are not supported: some are ignored with a warning, the others are refused unless they
have their default.

| setting | of | why |
|---|---|---|
"""

#: Why settings are not supported, by what their names begin with; the first that fits.
_REASONS = (
    ("metric.reporters", "Java classes; `metrics()` and `barnabas.metrics` give the figures, to Prometheus, too"),
    ("metrics.recording.level", "every figure has the level INFO, as in Kafka's clients"),
    ("sasl.client.callback.handler.class", "a Java class; names and passwords are settings"),
    ("sasl.kerberos.", "of Kerberos (`GSSAPI`), which is refused by name"),
    ("sasl.login.class", "a Java class; `sasl.login.callback.handler.class` takes what gives a token"),
    ("sasl.oauthbearer.", "of a broker that checks tokens; a client only sends its own"),
    ("security.providers", "Java classes; Python has OpenSSL"),
    ("ssl.engine.factory.class", "a Java class; give an `ssl.SSLContext` as `ssl.context`"),
    ("ssl.protocol", "`ssl.enabled.protocols` says which versions of TLS are spoken"),
    ("ssl.", "chooses among Java's implementations; Python has OpenSSL"),
)


def table() -> str:
    """Return the page."""
    return _HEAD.format(version=stored()["version"]) + "".join(_classes()) + _SETTINGS + "".join(_settings())


def _classes() -> Iterable[str]:
    """Make a section for each class; classes that have none here come last, in a table of their own."""
    without: list[Entry] = []
    for entry in entries():
        is_class = entry.java.startswith(("clients.", "common."))
        if is_class and entry.reason:
            without.append(entry)
        elif is_class:
            yield f"\n## {_short(entry.java)}\n`{entry.here}`\n\n| Java | here |\n|---|---|\n"
        else:
            name = entry.java.rpartition(".")[2]
            yield f"| `{name}` | {f'`{entry.here}`' if entry.here else entry.reason} |\n"
    yield "\n## Classes that have no class here\n| Java | here |\n|---|---|\n"
    for entry in without:
        yield f"| `{_short(entry.java)}` | {entry.reason} |\n"


def _short(java: str) -> str:
    return java.rpartition(".")[2].replace("$", ".")


def _settings() -> Iterable[str]:
    of: dict[str, list[str]] = {}
    for section in ("producer", "consumer", "admin"):
        ours = {setting["name"] for setting in OUR_SETTINGS[section]}
        for name in definitions(section).keys.keys() - SUPPORTED[section] - ours:
            of.setdefault(name, []).append(section)
    for name, sections in sorted(of.items()):
        is_ignored = [name in IGNORED[section] for section in sections]
        assert len(set(is_ignored)) == 1, f"{name} is ignored by some"
        yield f"| `{name}` | {', '.join(sections)} | {'ignored' if is_ignored[0] else 'refused'}: {_why(name)} |\n"


def _why(name: str) -> str:
    """Return why a setting is not supported; `StopIteration` where nothing is said of it."""
    return next(reason for prefix, reason in _REASONS if name.startswith(prefix))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(table(), encoding="utf-8")
    else:
        print(table(), end="")
