"""What Java's producer and consumers offer, as javap finds it in the jar: `python -m tools.java_clients --write`.

The result is tools/java_clients.json: by class (its name below org.apache.kafka) the public methods and constructors
that have arguments, and the constants of enumerations. The admin client has a file of its own (tools/java_admin.py).
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

PATH = Path(__file__).parent / "java_clients.json"
_HOME = "org.apache.kafka."
#: Whole packages, and classes of others that producer and consumers take and give.
_PACKAGES = ("clients.consumer.", "clients.producer.")
_OTHERS = (
    "common.Cluster",
    "common.IsolationLevel",
    "common.KafkaFuture",
    "common.Metric",
    "common.MetricName",
    "common.Node",
    "common.PartitionInfo",
    "common.TopicIdPartition",
    "common.TopicPartition",
    "common.Uuid",
    "common.header.Header",
    "common.header.Headers",
    "common.serialization.Deserializer",
    "common.serialization.Serde",
    "common.serialization.Serdes",
    "common.serialization.Serializer",
)
#: Exceptions are in docs/reference/errors.md, settings in docs/reference/settings.md.
_LEFT_OUT = re.compile(r"(Exception|Config|Config\$\w+|\$\d+|\$Builder)$")
_CLASS = re.compile(r"^public .*?(?:class|interface) ([\w.$]+)(.*?) \{$(.*?)^\}$", re.M | re.S)
_METHOD = re.compile(r"^  public (?:(?:static|abstract|default|final|synchronized|native) )*\S.*? (\w+)\(", re.M)
_CONSTANT = re.compile(r"^  public static final ([\w.$]+) (\w+);$", re.M)
_OF_EVERY_OBJECT = {"toString", "hashCode", "equals", "compareTo", "compare", "values", "valueOf"}


def read() -> dict[str, Any]:
    """Return what the jar of the release says."""
    found: dict[str, Any] = {}
    for name, _, body in _CLASS.findall(_javap()):
        constants = [constant for kind, constant in _CONSTANT.findall(body) if kind == name]
        methods = sorted(set(_METHOD.findall(body)) - _OF_EVERY_OBJECT)
        found[name.removeprefix(_HOME)] = {"methods": methods, "constants": constants}
    return {"version": apache_kafka.VERSION, "classes": dict(sorted(found.items()))}


def _javap() -> str:
    jar = f"{apache_kafka.JARS.fetch()}/kafka-clients-{apache_kafka.VERSION}.jar"
    with zipfile.ZipFile(jar) as archive:
        names = [name.removesuffix(".class").replace("/", ".") for name in archive.namelist()]
    packages = tuple(_HOME + package for package in _PACKAGES)
    of_packages = [name for name in names if name.rpartition(".")[0] + "." in packages and not _LEFT_OUT.search(name)]
    command = ["javap", "-public", "-cp", jar, *sorted(of_packages), *(_HOME + name for name in _OTHERS)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


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
