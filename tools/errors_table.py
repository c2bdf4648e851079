"""Prints docs/reference/errors.md: every error class, its code, whether trying again may help, and what it means.

`python -m tools.errors_table` prints it, `python -m tools.errors_table --write` writes the file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from barnabas import errors
from barnabas.errors import KafkaError

PATH = Path(__file__).parent.parent / "docs" / "reference" / "errors.md"
_HEAD = """# Errors
Made from the code by `python -m tools.errors_table --write`; a test fails when it is stale. All are in
`barnabas.errors` and derive from `KafkaError`. Names are Kafka's, with `Error` for `Exception`; Java's
`TimeoutException` is `KafkaTimeoutError`, and a `TimeoutError` too. An error tells `code` and `name` (those on the
wire), `retriable` (whether trying again may succeed; the clients do so by themselves until their time is over) and
`refresh_metadata`.

```python
from barnabas.errors import KafkaError, UnknownTopicOrPartitionError, for_code

assert issubclass(UnknownTopicOrPartitionError, KafkaError)
assert isinstance(for_code(3), UnknownTopicOrPartitionError)
```
"""
_PLAIN = "| class | is a | what it says |\n| --- | --- | --- |\n"
_WITH_CODE = "| code | class | on the wire | family | what it says |\n| --: | --- | --- | --- | --- |\n"


def classes() -> list[type[KafkaError]]:
    """Every error class, in the order in which they are defined: families, those with a code, the client's own."""
    found = (thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, KafkaError))
    return list(dict.fromkeys(found))


def table() -> str:
    """Return the page."""
    known = classes()
    coded = [error for error in known if "code" in vars(error) and error is not KafkaError]
    parents = {base for error in known for base in error.__mro__[1:]}
    families = [error for error in known if error in parents and error not in coded]
    own = [error for error in known if error not in coded and error not in families]
    return (
        f"{_HEAD}\n## Families\nWhat to catch: the classes below derive from these.\n\n"
        + _rows(_PLAIN, families, _family)
        + "\n## Of brokers\n"
        + _rows(
            "| code | class | on the wire | family | what it says |\n| --: | --- | --- | --- | --- |\n", coded, _coded
        )
        + "\n## Of the clients\n"
        + _rows(_PLAIN, own, _family)
    )


def _rows(head: str, found: list[type[KafkaError]], row: object) -> str:
    assert callable(row)
    return head + "".join(row(error) for error in found)


def _text(error: type[KafkaError]) -> str:
    return " ".join((error.__doc__ or "").split()).replace("|", "\\|")


def _bases(error: type[KafkaError]) -> str:
    return ", ".join(f"`{base.__name__}`" for base in error.__bases__)


def _family(error: type[KafkaError]) -> str:
    return f"| `{error.__name__}` | {_bases(error)} | {_text(error)} |\n"


def _coded(error: type[KafkaError]) -> str:
    return f"| {error.code} | `{error.__name__}` | {error.name} | {_bases(error)} | {_text(error)} |\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PATH.write_text(table(), encoding="utf-8")
    else:
        sys.stdout.write(table())
