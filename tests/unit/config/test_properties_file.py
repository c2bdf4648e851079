"""Java's .properties syntax, and Kafka's own server.properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.config.config import Config
from barnabas.config.properties_file import parse_properties, read_properties
from barnabas.errors import ConfigError
from tests.support.stock_configurations import STOCK_LOG_DIRECTORY, STOCK_SERVER_PROPERTIES


def test_kafkas_own_server_properties_loads(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(STOCK_SERVER_PROPERTIES)
    config = Config("broker", read_properties(str(path)))
    assert config["listeners"] == ["PLAINTEXT://:9092", "CONTROLLER://:9093"]
    assert config["log.dirs"] == [STOCK_LOG_DIRECTORY]
    assert len(config.given) == 24


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t=\t1  ", {"a": "1  "}),
        ("   a=1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a= b = c", {"a": "b = c"}),
        ("# a=1\n! b=2\n\nc=3", {"c": "3"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n    two", {"a": "one,two"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=x \\\n# not a comment", {"a": "x # not a comment"}),
        ("a\\ b\\==1", {"a b=": "1"}),
        ("a=\\t\\n\\u00e9\\q", {"a": "\t\né" + "q"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=C:\\\\data", {"a": "C:\\data"}),
        ("a=1\\", {"a": "1"}),
        ("", {}),
    ],
)
def test_the_syntax(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_malformed_escape_names_file_and_line() -> None:
    with pytest.raises(ConfigError, match=r"my\.properties, line 2: .*four hexadecimal digits"):
        parse_properties("a=1\nb=\\u12g4", source="my.properties")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        read_properties(str(tmp_path / "nowhere.properties"))
    (tmp_path / "binary.properties").write_bytes(b"a=\xff\xfe")
    with pytest.raises(ConfigError, match="binary"):
        read_properties(str(tmp_path / "binary.properties"))
