"""Prints docs/reference/apis.md: every API of Kafka, the versions that the broker serves, or why it does not.

`python -m tools.api_table` prints it, `python -m tools.api_table --write` writes the file.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from barnabas.broker.features import FEATURES
from barnabas.broker.handlers.not_served import NOT_SERVED
from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.api import ApiKey, request_class, stable_versions
from barnabas.protocol.kinds import AclOperation, ResourceType

PATH = Path(__file__).parent.parent / "docs" / "reference" / "apis.md"

_HEAD = """# The APIs of the broker
Made from the code by `python -m tools.api_table --write`; a test fails when it is stale. The protocol is that of Apache
Kafka 4.3. "Needs" is what a principal has to be allowed where `authorizer.class.name` is set; requests that touch
several resources need more (`barnabas.broker.security.request_rules`).

| key | API | served | Kafka's | needs |
| --: | --- | --- | --- | --- |
"""


def table() -> str:
    """Return the page."""
    served = "".join(_served(key) for key in ApiKey if key in SERVED)
    not_served = "".join(f"| {int(key)} | {_name(key)} | {NOT_SERVED[key]} |\n" for key in ApiKey if key not in SERVED)
    features = "".join(
        f"| `{name}` | {feature.lowest}-{feature.highest} | {feature.default} |\n"
        for name, feature in sorted(FEATURES.items())
    )
    return (
        f"{_HEAD}{served}\n## Not served\n| key | API | why |\n| --: | --- | --- |\n{not_served}"
        "\n## Features\n| feature | levels | of a new cluster |\n| --- | --- | --: |\n"
        f"{features}"
    )


def _served(key: ApiKey) -> str:
    module, low, high = SERVED[key]
    handler = import_module(f"barnabas.broker.handlers.{module}")
    needs = f"{_word(handler.OPERATION)} {_word(handler.RESOURCE)}"
    if handler.OPERATION == AclOperation.ANY:
        needs = "nothing"
    return f"| {int(key)} | {_name(key)} | {low}-{high} | {_versions(key)} | {needs} |\n"


def _versions(key: ApiKey) -> str:
    low, high = stable_versions(key)
    return f"{low}-{high}"


def _name(key: ApiKey) -> str:
    return request_class(key).NAME.removesuffix("Request")


def _word(kind: AclOperation | ResourceType) -> str:
    return kind.name.replace("_", " ").lower()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(table(), encoding="utf-8")
    else:
        print(table(), end="")
