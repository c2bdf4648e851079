"""Prints docs/reference/admin.md: each operation of Java's Admin interface, and what it is called here.

`python -m tools.admin_table` prints it, `python -m tools.admin_table --write` writes the file.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from barnabas import AdminClient
from barnabas.client.admin.admin_operations import SERVED_BY_CONTROLLERS
from tools.admin_comparison import METHODS, RETURNED_AS_IS, WITHOUT_CLASSES, Entry, entries, snake
from tools.java_admin import stored

PATH = Path(__file__).parent.parent / "docs" / "reference" / "admin.md"

_HEAD = """# The admin client
Made from the code by `python -m tools.admin_table --write`; a test fails when it is stale. The operations are those of
Java's `Admin` in Apache Kafka {version}; tools/java_admin.json has all that it offers, as javap tells, and a test looks
for each method, option, value and constant here. All methods take `timeout=` (seconds). Those that work on several
things give `Results`: a mapping of what succeeded, whose `errors` has what did not, by key; unless
`raise_errors=False`, failures are raised after everything was tried. An operation that a broker does not offer raises
`UnsupportedVersionError`, which names the API and the broker. `barnabas.aio.AdminClient` has the same, to be awaited.

```python
from barnabas import AdminClient, NewTopic

with AdminClient(bootstrap_servers="localhost:9092") as admin:
    admin.create_topics([NewTopic("flights", num_partitions=6, configs={{"retention.ms": 86_400_000}})])
    results = admin.describe_topics(["flights", "no-such-topic"], raise_errors=False)
    print(results["flights"].partitions, results.errors)
```

What goes in and comes out has names in `barnabas.admin`: `from barnabas.admin import ConfigResource, OffsetSpec`.

With `bootstrap_controllers="controller:9093"` in place of `bootstrap_servers` the client talks to the controllers
themselves (KIP-919), for instance while no broker is up. The column says what it can do there; all else is an
`UnsupportedEndpointTypeError`. The server must be a controller of Apache Kafka 3.7 or later.

| Java | here | at controllers | what it does |
| --- | --- | --- | --- |
"""

_OPTIONS = """
## Options
Java's classes of options are arguments of the methods, under the same names but for these.

| Java | here |
| --- | --- |
"""

_VALUES = """
## Values
What Java's results can be asked for is an attribute of the same name but for these; `timeoutMs` and durations are
seconds here.

| Java | here |
| --- | --- |
"""


def table() -> str:
    """Return the page."""
    all_entries = entries()
    options = [e for e in all_entries if "Options." in e.java and not e.java.endswith(".timeoutMs") and _is_renamed(e)]
    values = [e for e in all_entries if "." in e.java and "Options." not in e.java and _is_renamed(e)]
    methods = "".join(_method(e) for e in all_entries if "." not in e.java)
    head = _HEAD.format(version=stored()["version"])
    return head + methods + _OPTIONS + _rows(options) + _VALUES + _rows(values)


def _method(entry: Entry) -> str:
    if not entry.here:
        return f"| {entry.java} | | | not offered: {entry.reason} |\n"
    documentation = inspect.getdoc(getattr(AdminClient, entry.here)) or ""
    first = re.split(r"(?<=[.;])\s", documentation.split("\n\n")[0].replace("\n", " "))[0].rstrip(";.")
    what = f"{first[0].lower() if entry.java in METHODS else first[0]}{first[1:]}".replace("|", "\\|")
    deprecated = "deprecated in Java, as it is the same as this one: " if entry.java in METHODS else ""
    at_controllers = "yes" if entry.here in SERVED_BY_CONTROLLERS else ""
    return f"| {entry.java} | `{entry.here}` | {at_controllers} | {deprecated}{what} |\n"


def _is_renamed(entry: Entry) -> bool:
    """Whether the name here does not follow from Java's, or there is none."""
    java = entry.java.rpartition(".")[2]
    return re.split(r"[.(]", entry.here.rstrip("=)"))[-1] not in (java, snake(java)) and entry.reason != RETURNED_AS_IS


def _rows(some: Iterable[Entry]) -> str:
    rows = sorted({(_shown(entry.java), f"`{entry.here}`" if entry.here else entry.reason) for entry in some})
    return "".join(f"| {java} | {here} |\n" for java, here in rows)


def _shown(java: str) -> str:
    short = java.rpartition(".")[0]
    return (short if short in WITHOUT_CLASSES else java).replace("$", ".")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(table(), encoding="utf-8")
    else:
        print(table(), end="")
