"""Where a ZooKeeper of our own comes from: Java, and jars that ZOOKEEPER_HOME has or that Maven fetches once."""

from __future__ import annotations

import os
import shutil
from glob import glob
from typing import TYPE_CHECKING

from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The version with which Apache Kafka 3.9 comes.
VERSION = "3.8.4"
_HOME = "ZOOKEEPER_HOME"
#: ZooKeeper's own list leaves out what a server needs besides, and has a logging library that writes to its own file.
_ARTIFACTS = (
    ("org.apache.zookeeper", "zookeeper", VERSION),
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><exclusions>
<exclusion><groupId>ch.qos.logback</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>barnabas</groupId><artifactId>zookeeper</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
_OTHERWISE = "or name a ZooKeeper that runs: --zookeeper HOST:PORT/PATH"


def java(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of Java: of JAVA_HOME, as Spark takes it, else of the PATH. Raises `ConfigError` without one."""
    home = environment.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else environment.get("PATH"))
    if found is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        raise ConfigError(
            f"a ZooKeeper of its own needs Java 8 or later, and {where}: install it (such as apt-get install "
            f"openjdk-17-jre-headless) or set JAVA_HOME, {_OTHERWISE}"
        )
    return found


def class_path(environment: Mapping[str, str] = os.environ) -> str:
    """Return the jars of a ZooKeeper server, in Java's form; the first call fetches them, which takes some seconds.

    Raises `ConfigError` where they cannot be had.
    """
    home = environment.get(_HOME)
    if home:
        jars = [*glob(f"{home}/lib/*.jar"), *glob(f"{home}/*.jar")]
        if not any(os.path.basename(jar).startswith("zookeeper-") for jar in jars):
            raise ConfigError(f"{_HOME}={home} has no lib/zookeeper-*.jar: it is the folder of ZooKeeper's download")
        return os.pathsep.join(sorted(jars))
    cache = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "barnabas", f"zookeeper-{VERSION}")
    if not os.path.isdir(folder):
        _fetch(folder, environment)
    return os.path.join(folder, "*")


def _fetch(folder: str, environment: Mapping[str, str]) -> None:
    import subprocess
    import tempfile

    maven = shutil.which("mvn", path=environment.get("PATH"))
    if maven is None:
        raise ConfigError(
            f"a ZooKeeper of its own is fetched once by Maven, and there is no mvn on the PATH: install it (such as "
            f"apt-get install maven), set {_HOME} to the folder of a ZooKeeper that was downloaded, {_OTHERWISE}"
        )
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as work:
        with open(f"{work}/pom.xml", "w", encoding="utf-8") as file:
            file.write(_POM.format("".join(_DEPENDENCY.format(*artifact) for artifact in _ARTIFACTS)))
        command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={work}/jars"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)  # noqa: S603 - Maven
        if done.returncode:
            raise ConfigError(
                f"Maven could not fetch ZooKeeper {VERSION}: {done.stdout.strip()[-1000:]}; see that it reaches its "
                f"repository, set {_HOME} to the folder of a ZooKeeper that was downloaded, {_OTHERWISE}"
            )
        try:
            os.rename(f"{work}/jars", folder)
        except OSError:
            # Another process has fetched them meanwhile.
            if not os.path.isdir(folder):
                raise
