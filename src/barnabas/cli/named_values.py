"""Settings as people give them on a command line: NAME=VALUE."""

from __future__ import annotations

from barnabas.errors import ConfigError


def named_values(assignments: list[str], option: str, example: str = "client.id=me") -> dict[str, str]:
    """Return the settings in a list of NAME=VALUE.

    Raises `ConfigError`, which shows what was given only if it is the name of a setting: it may hold a password.
    """
    values = {}
    for number, assignment in enumerate(assignments, 1):
        name, separator, value = assignment.partition("=")
        if not separator or not name.strip():
            which = f"{option} {assignment}" if _is_setting(assignment) else f"the {number}. {option}"
            raise ConfigError(f"{which}: it must be NAME=VALUE, such as {option} {example}")
        values[name.strip()] = value.strip()
    return values


def _is_setting(text: str) -> bool:
    from barnabas.config.config_def import SECTIONS, definitions

    return any(text in definitions(section).keys for section in SECTIONS)
