"""What Java's admin client offers, as javap finds it in Apache Kafka's jar: `python -m tools.java_admin --write`.

The result is tools/java_admin.json: the methods of `Admin` with the class of their options, the options that can be
set, what can be asked of every class of results and values, and the constants of every enumeration.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from tests.peers import apache_kafka

PATH = Path(__file__).parent / "java_admin.json"
_ADMIN = "org.apache.kafka.clients.admin."
_OURS_ALONE = re.compile(r"(AdminClient|ForwardingAdmin|AdminClientConfig|AbstractOptions|Mock|\$\d|Call|Provider)")

#: Classes of other packages that the admin client takes and gives.
_COMMON = [
    "org.apache.kafka.clients.consumer.OffsetAndMetadata",
    "org.apache.kafka.common.ClassicGroupState",
    "org.apache.kafka.common.ElectionType",
    "org.apache.kafka.common.GroupState",
    "org.apache.kafka.common.GroupType",
    "org.apache.kafka.common.IsolationLevel",
    "org.apache.kafka.common.Node",
    "org.apache.kafka.common.TopicCollection",
    "org.apache.kafka.common.TopicPartitionInfo",
    "org.apache.kafka.common.TopicPartitionReplica",
    "org.apache.kafka.common.acl.AccessControlEntry",
    "org.apache.kafka.common.acl.AccessControlEntryFilter",
    "org.apache.kafka.common.acl.AclBinding",
    "org.apache.kafka.common.acl.AclBindingFilter",
    "org.apache.kafka.common.acl.AclOperation",
    "org.apache.kafka.common.acl.AclPermissionType",
    "org.apache.kafka.common.config.ConfigResource",
    "org.apache.kafka.common.config.ConfigResource$Type",
    "org.apache.kafka.common.quota.ClientQuotaAlteration",
    "org.apache.kafka.common.quota.ClientQuotaAlteration$Op",
    "org.apache.kafka.common.quota.ClientQuotaEntity",
    "org.apache.kafka.common.quota.ClientQuotaFilter",
    "org.apache.kafka.common.quota.ClientQuotaFilterComponent",
    "org.apache.kafka.common.resource.PatternType",
    "org.apache.kafka.common.resource.ResourcePattern",
    "org.apache.kafka.common.resource.ResourcePatternFilter",
    "org.apache.kafka.common.resource.ResourceType",
    "org.apache.kafka.common.security.token.delegation.DelegationToken",
    "org.apache.kafka.common.security.token.delegation.TokenInformation",
]

_CLASS = re.compile(r"^public .*?(?:class|interface) ([\w.$]+)(.*?) \{$(.*?)^\}$", re.M | re.S)
_METHOD = re.compile(r"^  public (?:(?:static|abstract|default|final|synchronized) )*(\S.*?) (\w+)\((.*?)\)", re.M)
_CONSTRUCTOR = re.compile(r"^  public ([\w.$]+)\((.+?)\);$", re.M)
_CONSTANT = re.compile(r"^  public static final ([\w.$]+) (\w+);$", re.M)
_OF_EVERY_OBJECT = {"toString", "hashCode", "equals", "compareTo", "values", "valueOf"}


def read() -> dict[str, Any]:
    """Return what the jar of the release says."""
    found: dict[str, Any] = {"version": apache_kafka.VERSION, "methods": {}, "options": {}, "values": {}, "enums": {}}
    for name, head, body in _CLASS.findall(_javap()):
        short = name.rpartition(".")[2]
        if short == "Admin":
            found["methods"] = _methods(body)
        elif "java.lang.Enum<" in head:
            constants = [constant for kind, constant in _CONSTANT.findall(body) if kind == name]
            found["enums"][short] = constants
        elif short.endswith("Options"):
            found["options"][short] = _options(short, body)
        else:
            asked = sorted(
                {method for _, method, arguments in _METHOD.findall(body) if _is_question(method, arguments)}
            )
            found["values"][short] = asked
    return {key: dict(sorted(value.items())) if isinstance(value, dict) else value for key, value in found.items()}


def _javap() -> str:
    jar = f"{apache_kafka.JARS.fetch()}/kafka-clients-{apache_kafka.VERSION}.jar"
    with zipfile.ZipFile(jar) as archive:
        names = [name.removesuffix(".class").replace("/", ".") for name in archive.namelist()]
    wanted = [name for name in names if name.rpartition(".")[0] + "." == _ADMIN and not _OURS_ALONE.search(name)]
    command = ["javap", "-public", "-cp", jar, *sorted(wanted), *_COMMON]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _methods(body: str) -> dict[str, str | None]:
    """Each method, with the class of its options if it takes some."""
    methods: dict[str, str | None] = {}
    for _, name, arguments in _METHOD.findall(body):
        options = re.search(r"\.(\w+Options)$", arguments)
        methods[name] = options[1] if options else methods.get(name)
    del methods["create"]
    return dict(sorted(methods.items()))


def _options(short: str, body: str) -> list[str]:
    """Return what can be set: by a method that takes a value or gives options, or by a constructor."""
    setters = {
        name
        for kind, name, arguments in _METHOD.findall(body)
        if (arguments and name not in _OF_EVERY_OBJECT) or (not arguments and kind.endswith("." + short))
    }
    made = {f"new({arguments.rpartition('.')[2].rstrip('>')})" for _, arguments in _CONSTRUCTOR.findall(body)}
    return sorted(setters | made)


def _is_question(method: str, arguments: str) -> bool:
    return method not in _OF_EVERY_OBJECT and (not arguments or "," not in arguments)


def stored() -> dict[str, Any]:
    """Return what `read` said when it was last written down."""
    data: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return data


def text(data: dict[str, Any]) -> str:
    """Return the file's text."""
    return json.dumps(data, indent=1) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(text(read()), encoding="utf-8")
    else:
        print(text(read()), end="")
