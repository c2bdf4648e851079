"""Prints docs/reference/settings.md: every setting of Kafka's, its default, and what it does here.

`python -m tools.settings_table` prints it, `python -m tools.settings_table --write` writes the file. What a setting
does stands in src/barnabas/config/setting_meanings.txt; whether it is supported, in `barnabas.config.support`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from barnabas.config.config_def import OUR_DEFAULTS, OUR_SETTINGS, SECTIONS, ConfigKey, definitions
from barnabas.config.meanings import meaning
from barnabas.config.support import IGNORED, SUPPORTED, subject_of

ROOT = Path(__file__).parent.parent
PATH = ROOT / "docs" / "reference" / "settings.md"
TITLES = {
    "producer": "Producer",
    "consumer": "Consumer",
    "admin": "Admin client",
    "topic": "Topics",
    "broker": "Broker",
}
_HEAD = """# Settings
Made from the code by `python -m tools.settings_table --write`; a test fails when it is stale. The settings are those of
Apache Kafka 4.3, under their own names; as keywords of Python, `_` stands for `.`. A setting is supported, or ignored
with a warning because it only tunes another implementation, or refused unless it has its default. An unknown name is an
error that names the nearest one.

In brackets stand the type and what is allowed; `max` and `min` are the largest and the smallest number of the type.
Times are in the unit that the name says. An asterisk marks a default that is not Kafka's.
"""


def table() -> str:
    """Return the page."""
    return _HEAD + "".join(_section(section) for section in SECTIONS)


def _section(section: str) -> str:
    keys = definitions(section).keys
    supported = sorted(SUPPORTED[section] & keys.keys())
    refused = sorted(keys.keys() - SUPPORTED[section] - IGNORED[section])
    rows = "".join(
        f"| `{name}` | {_default(section, keys[name])} | {meaning(section, name)} ({_allowed(keys[name])}) |\n"
        for name in supported
    )
    page = f"\n## {TITLES[section]}\n| setting | default | what it does |\n| --- | --- | --- |\n{rows}"
    ignored = sorted(IGNORED[section] & keys.keys())
    if ignored:
        page += f"\n**Ignored with a warning**: {_listed(ignored)}.\n"
    if refused:
        page += "\n**Refused unless it has its default**:\n\n"
        subjects: dict[str, list[str]] = {}
        for name in refused:
            subjects.setdefault(subject_of(name), []).append(name)
        page += "".join(f"- {subject}: {_listed(names)}\n" for subject, names in sorted(subjects.items()))
    return page


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _default(section: str, key: ConfigKey) -> str:
    ours = "" if key.name not in OUR_DEFAULTS[section] else " *"
    if key.name in {entry["name"] for entry in OUR_SETTINGS[section]}:
        ours = " *"
    if key.name == "bootstrap.servers":
        return "required"
    default = None if key.required else key.default
    if default in (None, "", [], ()):
        return f"none{' *' if key.required else ours}"
    if isinstance(default, bool):
        default = str(default).lower()
    if isinstance(default, list | tuple):
        default = ",".join(map(str, default))
    return f"`{default}`{ours}".replace("|", "\\|")


def _allowed(key: ConfigKey) -> str:
    allowed = f"{key.type} {key.valid}".strip()
    for number, word in (("9223372036854775807", "max"), ("2147483647", "max"), ("-9223372036854775808", "min")):
        allowed = allowed.replace(number, word)
    return allowed.replace("|", "\\|").replace("<", "&lt;") if len(allowed) < 90 else key.type


if __name__ == "__main__":
    if "--write" in sys.argv:
        PATH.write_text(table(), encoding="utf-8")
    else:
        sys.stdout.write(table())
