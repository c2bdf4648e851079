"""Reads Java's `.properties` syntax, the syntax of Kafka's server.properties.

The format is that of java.util.Properties.load: `key=value`, `key:value` or `key value`; `#` and `!` start a comment
line; a backslash at the end of a line joins the next one; `\\t \\n \\r \\f \\uXXXX` are escapes and a backslash before
anything else stands for that character.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.errors import ConfigError

_WHITE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str) -> dict[str, str]:
    """Return the settings in a file, in its order; of a key given twice the last value holds.

    Raises `ConfigError` when the file cannot be read or holds a malformed escape.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"cannot read the settings file {path}: {problem}") from problem
    return parse_properties(text, source=path)


def parse_properties(text: str, source: str = "properties") -> dict[str, str]:
    """Return the settings in a text of `.properties` syntax; `source` is named in errors."""
    found = {}
    for number, line in _logical_lines(text):
        raw_key, raw_value = _split(line)
        try:
            found[_unescape(raw_key)] = _unescape(raw_value)
        except ValueError as problem:
            raise ConfigError(f"{source}, line {number}: {problem}") from None
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    joined = ""
    start = 0
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = line.lstrip(_WHITE)
        if not joined:
            start = number
            if not line or line[0] in "#!":
                continue
        if _continues(line):
            joined += line[:-1]
            continue
        yield start, joined + line
        joined = ""
    if joined:
        yield start, joined


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _WHITE:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_WHITE)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_WHITE)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                character = _unicode_escape(text[position : position + 4])
                position += 4
            else:
                character = _ESCAPES.get(character, character)
        out.append(character)
    return "".join(out)


def _unicode_escape(digits: str) -> str:
    try:
        if len(digits) != 4:
            raise ValueError
        return chr(int(digits, 16))
    except ValueError:
        raise ValueError(f"\\u{digits} is not a Unicode escape: four hexadecimal digits must follow \\u") from None
