"""Spark's built-in Kafka connector, as a peer for tests and benchmarks: its jars, fetched through Maven once.

`why_not()` says what is missing; `jars()` is the value for `spark.jars`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

VERSION = "4.2.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "barnabas" / f"spark-kafka-{VERSION}"

#: Nothing transitive: Spark has the rest.
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peer</groupId><artifactId>peer</artifactId><version>1</version><dependencies>{dependencies}</dependencies>
</project>"""
_DEPENDENCY = """<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"""
_ARTIFACTS = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
]


def why_not() -> str | None:
    """Why the connector cannot be had here; None when it can."""
    if not (CACHE / "complete").exists() and shutil.which("mvn") is None:
        return "Maven is missing, which fetches Spark's Kafka connector (apt-get install maven)"
    return None


def jars() -> str:
    """The jars, comma-separated; fetches them on the first call."""
    if not (CACHE / "complete").exists():
        _fetch()
    return ",".join(sorted(str(path) for path in (CACHE / "jars").glob("*.jar")))


def _fetch() -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    rows = (_DEPENDENCY.format(group=group, artifact=name, version=version) for group, name, version in _ARTIFACTS)
    (CACHE / "pom.xml").write_text(_POM.format(dependencies="".join(rows)), encoding="utf-8")
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={CACHE}/jars"]
    done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Maven could not fetch Spark's Kafka connector {VERSION}: {done.stdout[-2000:]}")
    (CACHE / "complete").touch()
