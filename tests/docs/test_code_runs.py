"""The code of README and guide runs: each page from top to bottom, against a broker, as a reader would type it.

`localhost:9092` stands for the broker. A comment before a block says where it runs instead, or why it does not:

- `<!-- run: spark -->`: by tests/spark/test_documented_code.py.
- `<!-- run: until cancelled -->`: it would go on for ever, and is cancelled.
- `<!-- not run: the reason -->`.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Broker, NewTopic, Producer
from tests.docs.pages import PAGES, ROOT, Block, blocks

#: Pages whose code needs more than a broker, and the tests that run it.
ELSEWHERE = {
    "docs/guide/queues.md": "tests/contract/test_documented_queues.py",
    "docs/guide/security.md": "tests/contract/test_security.py",
    "docs/guide/serializers.md": "tests/interop/test_documented_serializers.py",
    "docs/guide/testing.md": "tests/unit/testing/test_pytest_plugin.py",
}
#: Seconds after which a command that waits for more records gets a Ctrl-C, and after which any other has failed.
CANCELLED_AFTER, FAILED_AFTER = 5.0, 60.0
GUIDES = [page for page in PAGES if "guide" in page.parts or "reference" in page.parts or page.name == "README.md"]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def code_of(page: Path, *languages: str) -> list[Block]:
    return [block for block in blocks(page) if block.language in languages]


WITH_PYTHON = [page for page in GUIDES if code_of(page, "python") and name_of(page) not in ELSEWHERE]
WITH_SHELL = [page for page in GUIDES if code_of(page, "sh")]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_every_block_of_code_says_what_it_is_and_why_it_does_not_run(page: Path) -> None:
    known = {"run: spark", "run: until cancelled"}
    for block in blocks(page):
        assert block.language in {"python", "sh", "text", "diff", "properties", "toml", "yaml"}, block.name
        reason = block.note.removeprefix("not run: ")
        assert not block.note or block.note in known or (reason != block.note and len(reason) > 10), block.name


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_a_page_that_runs_elsewhere_is_named_there(page: str, test: str) -> None:
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_the_python_code_of_a_page_runs(
    page: Path, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"servers": broker.bootstrap_servers, "__name__": "__main__"}
    for block in code_of(page, "python"):
        if block.note in {"", "run: until cancelled"}:
            run_python(block, names, broker.bootstrap_servers)
    for made in names.values():
        close = getattr(made, "close", None)
        if type(made).__module__.startswith("barnabas.client") and close is not None:
            close()


def run_python(block: Block, names: dict[str, Any], servers: str) -> None:
    """Run one block among the names of those before it, in an event loop if it awaits."""
    source = "\n" * (block.line - 1) + block.code.replace("localhost:9092", servers)
    compiled = compile(source, block.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not compiled.co_flags & inspect.CO_COROUTINE:
        exec(compiled, names)
    elif block.note:
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(eval(compiled, names), CANCELLED_AFTER))
    else:
        asyncio.run(eval(compiled, names))


# --- the command line


@pytest.fixture
def desk(tmp_path: Path, broker: Broker) -> dict[str, str]:
    """A directory as the pages take for granted, with a broker that has topics and groups; returns the environment."""
    (tmp_path / ".zfunc").mkdir()
    (tmp_path / ".config/fish/completions").mkdir(parents=True)
    (tmp_path / "barnabas-data").symlink_to(broker.data_dir)
    lines = [f"EWR\tflight {number}" for number in range(20)]
    (tmp_path / "flights.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "flights.txt").write_text("UA 1714\nB6 725\n", encoding="utf-8")
    with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("flights", num_partitions=5), NewTopic("copy", num_partitions=5)])
        admin.alter_consumer_group_offsets("tower", {("flights", number): 0 for number in range(5)})  # type: ignore[misc]
    with Producer(bootstrap_servers=broker.bootstrap_servers, value_serializer=str, key_serializer=str) as producer:
        for partition in range(5):
            producer.send("flights", "UA 1714", "EWR", partition)
    return {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "BARNABAS_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
    }


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("page", WITH_SHELL, ids=name_of)
def test_the_shell_code_of_a_page_runs(page: Path, desk: dict[str, str]) -> None:
    for block in code_of(page, "sh"):
        if not block.note:
            for number, line in enumerate(block.code.splitlines(), block.line):
                if line.strip() and not line.startswith("#"):
                    run_line(f"{name_of(page)}:{number}", line, desk)


def run_line(place: str, line: str, desk: dict[str, str]) -> None:
    """Run one line of a shell; what waits for more records is ended with Ctrl-C, as a reader would."""
    if line.startswith("barnabas up"):
        line = line.partition("#")[0] + " --help"  # the reader's broker runs already; its options are looked at
    is_endless = "barnabas consume" in line
    limit = CANCELLED_AFTER if is_endless else FAILED_AFTER
    limited = ["timeout", "--signal=INT", str(limit), "bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(limited, cwd=desk["HOME"], env=desk, capture_output=True, text=True, timeout=90, check=False)
    waits = is_endless and done.returncode in {124, 130}
    assert done.returncode == 0 or waits, f"{place}: {line}\n{done.stdout}{done.stderr}"
