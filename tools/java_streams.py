"""What Kafka Streams offers, as javap finds it in Apache Kafka's jar: `python -m tools.java_streams --write`.

The result is tools/java_streams.json: the names of the public methods of every public class of org.apache.kafka.streams
and its packages kstream, processor, processor.api and state. What has been deprecated before 4.0 is there, too.
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

PATH = Path(__file__).parent / "java_streams.json"
_WANTED = re.compile(r"org/apache/kafka/streams/(?:(?:kstream|processor|processor/api|state)/)?([A-Za-z$]+)\.class")
_CLASS = re.compile(r"^public .*?(?:class|interface|enum) ([\w.$]+)[^{]*\{$(.*?)^\}$", re.M | re.S)
_METHOD = re.compile(r"^  public (?:[\w.$<>?, \[\]&]+ )?([\w.$]+)\(", re.M)
_OF_EVERY_OBJECT = {"toString", "hashCode", "equals", "compareTo", "values", "valueOf", "getClass"}


def read() -> dict[str, Any]:
    """Return what the jar of the release says."""
    jars = apache_kafka.test_driver_classpath()
    folder = Path(jars.partition(":")[0].removesuffix("*"))
    jar = next(iter((folder if folder.is_dir() else folder.parent).glob(f"kafka-streams-{apache_kafka.VERSION}.jar")))
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if _WANTED.fullmatch(name)]
    classes = sorted(name.removesuffix(".class").replace("/", ".") for name in names)
    command = ["javap", "-public", "-cp", jars, *classes]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {}
    for name, body in _CLASS.findall(told):
        methods = {method for method in _METHOD.findall(body) if "." not in method}
        found[name.removeprefix("org.apache.kafka.streams.")] = sorted(methods - _OF_EVERY_OBJECT)
    return {"version": apache_kafka.VERSION, "classes": dict(sorted(found.items()))}


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
