"""Small realistic faults, planted one at a time: the simulator has to find every one.

Each replaces one piece of source by another while its module is imported, in a process of its own. A piece that is not
there exactly once is an error: whoever changes that code says here what the fault looks like now.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_SOURCES = Path(__file__).parents[3]


class Mutation(NamedTuple):
    """A fault: in `module` `old` becomes `new`."""

    name: str
    module: str
    old: str
    new: str


MUTATIONS = [
    # The log.
    Mutation(
        "sequence numbers are not checked",
        "barnabas.broker.log.producer_append_info",
        "NO_PRODUCER_EPOCH and not in_sequence:",
        "NO_PRODUCER_EPOCH and not in_sequence and first_sequence < 0:",
    ),
    Mutation(
        "repeated batches are not recognised",
        "barnabas.broker.log.unified_log",
        "if repeated is not None:",
        "if repeated is not None and repeated.offset_delta < 0:",
    ),
    Mutation(
        "recovery keeps a torn batch",
        "barnabas.broker.log.log_loader",
        "        segment.truncate_bytes(position)\n",
        "        self._producers.map_end_offset = next_offset\n",
    ),
    Mutation(
        "recovery forgets the producers",
        "barnabas.broker.log.log_loader",
        "        aborted = self._producers.replay(chunk, header)\n",
        "        aborted = None\n        self._producers.map_end_offset = header.next_offset\n",
    ),
    Mutation(
        "the high watermark is one too far",
        "barnabas.broker.log.unified_log",
        "min(max(offset, self.log_start_offset), self.log_end_offset)",
        "max(offset, self.log_start_offset) + 1",
    ),
    Mutation(
        "a flush does not reach the disk",
        "barnabas.broker.log.unified_log",
        "                file.sync()\n",
        "                file.size()\n",
    ),
    Mutation(
        "a crash passes for a clean shutdown",
        "barnabas.broker.log.log_manager",
        "self.had_clean_shutdown = self.filesystem.exists(marker)",
        "self.had_clean_shutdown = True",
    ),
    # Transactions.
    Mutation(
        "the successor's epoch is not raised",
        "barnabas.broker.transactions.init_producer_id",
        "metadata.initialized(metadata.producer_id, epoch + 1, NO_PRODUCER_EPOCH,",
        "metadata.initialized(metadata.producer_id, max(epoch, 0), NO_PRODUCER_EPOCH,",
    ),
    Mutation(
        "aborted transactions are not indexed",
        "barnabas.broker.log.unified_log",
        "            if aborted is not None:",
        "            if aborted is not None and aborted.producer_id < 0:",
    ),
    Mutation(
        "readers of committed records read open transactions",
        "barnabas.broker.log.unified_log",
        "bound = self.last_stable_offset if committed else self.high_watermark",
        "bound = self.high_watermark",
    ),
    Mutation(
        "a marker that could not be written is lost",
        "barnabas.broker.transactions.transaction_marker_sender",
        "remaining = metadata.without(frozenset(decided.answered))",
        "remaining = metadata.without(frozenset(metadata.partitions))",
    ),
    Mutation(
        "offsets of an aborted transaction are committed",
        "barnabas.broker.groups.offsets.store",
        "            if committed:\n",
        "            if committed or topics:\n",
    ),
    # Groups.
    Mutation(
        "commits are forgotten by a restart",
        "barnabas.broker.groups.group_replay",
        "            offsets.put(key.group, key.topic, key.partition, offset)\n",
        "            offsets.get(key.group, key.topic, key.partition)\n",
    ),
    Mutation(
        "the generation is ignored",
        "barnabas.broker.groups.classic_group",
        "if generation_id != self.generation_id:",
        "if generation_id > self.generation_id:",
    ),
    Mutation(
        "partitions are given away before their owner lets go",
        "barnabas.broker.groups.consumer.reconciliation",
        "if group.is_free(topic_id, index, member.member_id)]",
        "if index >= 0]",
    ),
    # Fetch sessions.
    Mutation(
        "a fetch session keeps its old offsets",
        "barnabas.broker.handlers.fetch",
        "            target.offset = asked.fetch_offset\n",
        "            target.offset = target.offset or asked.fetch_offset\n",
    ),
    # The client.
    Mutation(
        "a batch that is sent again gets another number",
        "barnabas.client.producer.batch_drainer",
        "if numbering is not None and not first.has_sequence:",
        "if numbering is not None:",
    ),
    Mutation(
        "a consumer commits one record too many",
        "barnabas.client.consumer.subscription_state",
        "partition: OffsetAndMetadata(state.position.offset, ",
        "partition: OffsetAndMetadata(state.position.offset + 1, ",
    ),
    Mutation(
        "a consumer hands out data from before a seek",
        "barnabas.client.consumer.fetching.fetch_collector",
        "        if fetch.seek_id != self._subscriptions.seek_id(fetch.partition):\n            return True\n",
        "        if fetch.seek_id >= 0:\n            return False\n",
    ),
]

#: The ones that are looked for in every CI run, for they are found soon.
SHORT = (
    "repeated batches are not recognised",
    "aborted transactions are not indexed",
    "recovery forgets the producers",
    "the generation is ignored",
    "partitions are given away before their owner lets go",
    "readers of committed records read open transactions",
)


class _MutatedLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, mutation: Mutation) -> None:
        super().__init__(name, str(_path_of(mutation)))
        self._mutation = mutation

    def exec_module(self, module: ModuleType) -> None:
        code = compile(mutated_source(self._mutation), self.path, "exec")
        exec(code, module.__dict__)  # noqa: S102 - it is our own source


class _MutatedFinder(importlib.abc.MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation
        self._name = mutation.module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_loader(fullname, _MutatedLoader(fullname, self._mutation))


def _path_of(mutation: Mutation) -> Path:
    return _SOURCES / f"{mutation.module.replace('.', '/')}.py"


def mutated_source(mutation: Mutation) -> str:
    """The source of the module with its fault. Raises ValueError if the piece to replace is not there once."""
    source = _path_of(mutation).read_text()
    found = source.count(mutation.old)
    if found != 1:
        raise ValueError(f"mutation {mutation.name!r}: {mutation.old!r} stands {found} times in {mutation.module}")
    return source.replace(mutation.old, mutation.new)


def plant(name: str) -> None:
    """Have this process import the module with its fault; to be called before anything imports it."""
    mutation = next(found for found in MUTATIONS if found.name == name)
    assert mutation.module not in sys.modules, "it is too late for the fault"
    mutated_source(mutation)
    sys.meta_path.insert(0, _MutatedFinder(mutation))


def hunt(names: list[str], seeds: int, first: int, jobs: int) -> int:
    """Look for each fault until it is found; prints a line of a table for each, and gives how many were missed."""
    missed = 0
    for name in names:
        began = time.monotonic()
        arguments = ["--mutation", name, "--seeds", str(seeds), "--seed", str(first), "--jobs", str(jobs)]
        run = subprocess.run(  # noqa: S603 - this very program
            [sys.executable, "-m", "barnabas.testing.simulator", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        played, oracle = _found(run.stdout)
        missed += not oracle
        what = oracle or f"NOT FOUND {run.stderr[-300:]}"
        print(f"| {name} | {played} | {time.monotonic() - began:.0f} s | {what} |", flush=True)  # noqa: T201
    return missed


def _found(output: str) -> tuple[str, str]:
    """How many seeds were played, and what the last of them found; nothing if it found nothing."""
    played = re.search(r"^(\d+) seeds, ", output, re.MULTILINE)
    violation = re.search(r"^VIOLATION: (.*?)(?=^VIOLATION: |^replay: )", output, re.MULTILINE | re.DOTALL)
    # Of a traceback the last line says what was wrong.
    last = violation[1].strip().splitlines()[-1] if violation else ""
    return played[1] if played else "?", last[:110]
