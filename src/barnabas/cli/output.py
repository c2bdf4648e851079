"""What the commands print: tables for people, JSON for programs, notes on stderr."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from barnabas.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from barnabas.client.admin.results import FromBrokers, Results

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_GAP = "  "
_dump: Callable[[Any], str] = functools.partial(json.dumps, indent=2, ensure_ascii=False)


def print_rows(form: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows, as JSON with all they hold, or as a table of some columns."""
    if form == "json":
        print_json(list(rows))
    else:
        print_table(rows, columns)


def use_yaml() -> None:
    """Let `print_json` print YAML from now on. Raises `ConfigError` where its library is missing."""
    global _dump
    try:
        import yaml
    except ImportError:
        raise ConfigError("-o yaml needs PyYAML: pip install 'barnabas[console]', or use -o json") from None
    _dump = lambda document: str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))  # noqa: E731


def print_json(document: Any) -> None:
    """Print a document as JSON, or as YAML where that was asked for."""
    print(_dump(document).rstrip("\n"))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows under a heading; nothing at all when there are none."""
    if not rows:
        return
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    numeric = [_is_numeric([row.get(column) for row in rows]) for column in columns]
    headings = [heading(column) for column in columns]
    if sys.stdout.isatty() and _print_rich(headings, cells, numeric):
        return
    print("\n".join(table_lines(headings, cells, numeric)))


def _is_numeric(column: Sequence[Any]) -> bool:
    kinds = {type(value) for value in column} - {type(None)}
    return kinds == {int}


def table_lines(headings: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> list[str]:
    """Return the lines of a table, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    return [
        _GAP.join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in (headings, *cells)
    ]


def _print_rich(headings: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, right in zip(headings, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for line in cells:
        table.add_row(*map(Text, line))
    Console().print(table)
    return True


def heading(column: str) -> str:
    """Return a column's heading: `logEndOffset` is LOG-END-OFFSET."""
    return _CAPITAL.sub("-", column).upper()


def cell(value: Any) -> str:
    """Return a value in a table."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(cell, value)) or "-"
    return printable(str(value))


def printable(text: str) -> str:
    """Return the text with control characters escaped, so that it cannot drive a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)


def time_text(timestamp_ms: int) -> str:
    """Return a time in epoch milliseconds as people read it, in UTC; `-` for none."""
    if timestamp_ms < 0:
        return "-"
    try:
        return f"{_second_text(timestamp_ms // 1000)}.{timestamp_ms % 1000:03}Z"
    except (ValueError, OverflowError, OSError):
        # Beyond the year 9999.
        return f"@{timestamp_ms}"


@lru_cache(maxsize=256)
def _second_text(seconds: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def size_text(size: int) -> str:
    """Return a number of bytes as people read it."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def note(text: str) -> None:
    """Say something to the person at the terminal, on stderr."""
    sys.stderr.write(f"barnabas: {printable(text)}\n")
    sys.stderr.flush()


def report_failures(command: str, errors: Iterable[BaseException]) -> int:
    """Say what failed, one line each; gives the exit code."""
    code = 0
    for error in errors:
        sys.stderr.write(f"barnabas {command}: {error_line(error)}\n")
        code = 1
    return code


def report_silent_brokers(command: str, found: FromBrokers[Any] | Results[int, Any]) -> int:
    """Complain of the brokers that did not answer what all were asked; returns the exit code.

    Raises what they said where there is nothing of the others to show.
    """
    if not found:
        from barnabas.client.admin.results import Results as Failed

        Failed({}, found.errors).raise_errors()
    return report_failures(command, found.errors.values())


def error_line(problem: BaseException) -> str:
    """Return what went wrong and, where it is known, what to do; in one line."""
    if isinstance(problem, OSError) and problem.strerror and not isinstance(problem, KafkaError):
        text = f"{problem.filename}: {problem.strerror}" if problem.filename else problem.strerror
    else:
        text = " ".join(str(problem).split()) or type(problem).__name__
    advice = _ADVICE.get(type(problem).__name__)
    return printable(f"{text.rstrip('.')}; {advice}" if advice and advice not in text else text)


_ADVICE = {
    "UnknownTopicOrPartitionError": "`barnabas topic list` shows what there is",
    "GroupIdNotFoundError": "`barnabas group list` shows what there is",
    "TransactionalIdNotFoundError": "`barnabas txn list` shows what there is",
    "TopicExistsError": "choose another name, or use --if-not-exists",
    "GroupNotEmptyError": "end its consumers first, `barnabas group describe` shows them",
    "UnknownMemberIdError": "the group has members: end its consumers first",
    "SaslAuthenticationError": "see sasl.jaas.config, or sasl.username and sasl.password, in the settings",
    "GroupSubscribedToTopicError": "end the consumers that are subscribed to the topic first",
}
