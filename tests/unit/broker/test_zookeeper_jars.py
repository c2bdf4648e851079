"""What a ZooKeeper of our own needs, and what is said where it is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.broker.zookeeper_jars import VERSION, class_path, java
from barnabas.errors import ConfigError


def _program(folder: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def test_java_is_that_of_java_home_as_for_spark_else_that_of_the_path(tmp_path: Path) -> None:
    chosen, other = _program(tmp_path / "home/bin", "java"), _program(tmp_path / "path", "java")
    assert java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}) == str(chosen)
    assert java({"PATH": str(tmp_path / "path")}) == str(other)


def test_without_java_the_error_says_what_helps(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no java on the PATH: install it .* or set JAVA_HOME, or name a ZooKeeper"):
        java({"PATH": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"JAVA_HOME=\S+ has no bin/java"):
        java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)})


def test_without_maven_the_error_says_what_helps(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no mvn on the PATH: install it .* set ZOOKEEPER_HOME .* --zookeeper HOST"):
        class_path({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})


def test_the_jars_of_a_zookeeper_that_was_downloaded_are_taken(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    with pytest.raises(ConfigError, match=r"has no lib/zookeeper-\*\.jar"):
        class_path({"ZOOKEEPER_HOME": str(tmp_path)})
    jar = tmp_path / "lib" / "zookeeper-3.9.4.jar"
    jar.touch()
    assert class_path({"ZOOKEEPER_HOME": str(tmp_path)}) == str(jar)


_MAVEN = """#!/bin/sh
echo call >> {calls}
for argument; do
  case "$argument" in -DoutputDirectory=*) mkdir -p "${{argument#*=}}"; touch "${{argument#*=}}/a.jar";; esac
done
"""


def test_maven_fetches_once_into_the_cache_of_the_user(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    _program(tmp_path / "bin", "mvn", _MAVEN.format(calls=calls))
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for _ in range(2):
        assert class_path(environment) == str(tmp_path / f"cache/barnabas/zookeeper-{VERSION}/*")
    assert calls.read_text(encoding="utf-8") == "call\n"
    assert os.listdir(tmp_path / "cache/barnabas") == [f"zookeeper-{VERSION}"]


def test_what_maven_says_when_it_fails_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    _program(tmp_path / "bin", "mvn", "#!/bin/sh\necho no such host\nexit 1\n")
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with pytest.raises(ConfigError, match="no such host; see that it reaches its repository"):
        class_path(environment)
    assert os.listdir(tmp_path / "cache/barnabas") == []
