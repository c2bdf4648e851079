"""Prints docs/reference/apis.md: every API of Kafka, the versions that the broker serves, or why it does not.

`python -m tools.api_table` prints it, `python -m tools.api_table --write` writes the file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from barnabas.broker.features import FEATURES
from barnabas.broker.handlers.not_served import NOT_SERVED
from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.api import ApiKey, request_class, stable_versions
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ResourceType as Res

PATH = Path(__file__).parent.parent / "docs" / "reference" / "apis.md"

_HEAD = """# The APIs of the broker
Made from the code by `python -m tools.api_table --write`; a test fails when it is stale. The protocol is that of Apache
Kafka 4.3. "Needs" is what a principal has to be allowed where `authorizer.class.name` is set; requests that touch
several resources need more (`barnabas.broker.security.request_rules`).

| key | API | served | Kafka's | needs |
| --: | --- | --- | --- | --- |
"""

#: What a principal has to be allowed first of all → the keys of the APIs; the others ask for nothing.
NEEDS = {
    (Op.READ, Res.TOPIC): (1, 61),
    (Op.WRITE, Res.TOPIC): (0,),
    (Op.ALTER, Res.TOPIC): (37,),
    (Op.DELETE, Res.TOPIC): (20, 21),
    (Op.DESCRIBE, Res.TOPIC): (2, 3, 23, 75),
    (Op.READ, Res.GROUP): (8, 11, 12, 13, 14, 28, 68, 76, 78, 79, 88, 91),
    (Op.DELETE, Res.GROUP): (42, 47, 92),
    (Op.DESCRIBE, Res.GROUP): (9, 10, 15, 69, 77, 89, 90),
    (Op.WRITE, Res.TRANSACTIONAL_ID): (24, 25, 26),
    (Op.DESCRIBE, Res.TRANSACTIONAL_ID): (65, 66),
    (Op.DESCRIBE, Res.DELEGATION_TOKEN): (41,),
    (Op.CREATE_TOKENS, Res.USER): (38,),
    (Op.CREATE, Res.CLUSTER): (19,),
    (Op.ALTER, Res.CLUSTER): (30, 31, 34, 43, 45, 51, 57),
    (Op.DESCRIBE, Res.CLUSTER): (16, 29, 35, 46, 50, 60),
    (Op.ALTER_CONFIGS, Res.CLUSTER): (33, 44, 49),
    (Op.DESCRIBE_CONFIGS, Res.CLUSTER): (32, 48, 74),
    (Op.IDEMPOTENT_WRITE, Res.CLUSTER): (22,),
    (Op.CLUSTER_ACTION, Res.CLUSTER): (27, 83, 84, 85, 86, 87),
}


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
    _, low, high = SERVED[key]
    needs = next((f"{_word(op)} {_word(resource)}" for (op, resource), keys in NEEDS.items() if key in keys), "nothing")
    return f"| {int(key)} | {_name(key)} | {low}-{high} | {_versions(key)} | {needs} |\n"


def _versions(key: ApiKey) -> str:
    low, high = stable_versions(key)
    return f"{low}-{high}"


def _name(key: ApiKey) -> str:
    return request_class(key).NAME.removesuffix("Request")


def _word(kind: Op | Res) -> str:
    return kind.name.replace("_", " ").lower()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(table(), encoding="utf-8")
    else:
        print(table(), end="")
