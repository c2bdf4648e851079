"""`barnabas spark`: streaming queries, seen from outside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.output import note, print_json, print_table
from barnabas.cli.spark_repair import add_repair

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.spark.checkpoint import SourcePosition

COLUMNS = ("source", "topic", "partition", "position", "planned", "begin", "end", "lag", "lost", "beyond")
_EXAMPLES = """\
  barnabas spark lag --checkpoint /data/checkpoints/flights
  barnabas spark repair 3e5bf6b2-4bd2-488c-baa2-b218c8dd39ed --rewrite-lost
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "show where a streaming query stands against its topics, and repair what it lost"
    parts = add_command(subparsers, "spark", about, examples=_EXAMPLES).add_subparsers(metavar="ACTION", required=True)
    lag = add_command(parts, "lag", "show the lag of each partition, from a query's checkpoint", examples=_EXAMPLES)
    lag.add_argument("--checkpoint", metavar="DIR", required=True, help="the query's checkpointLocation")
    add_connection(lag)
    lag.set_defaults(action=run_lag)
    add_repair(parts)


def run_lag(args: Namespace) -> int:
    """Print how far the query is behind; a lag counts offsets, compacted ones too."""
    from barnabas.spark.checkpoint import read_checkpoint

    batch, sources = read_checkpoint(Path(args.checkpoint))
    rows = _rows(args, sources)
    total = sum(row["lag"] or 0 for row in rows)
    if args.output == "json":
        print_json({"checkpoint": args.checkpoint, "lastFinishedBatch": batch, "lag": total, "partitions": rows})
        return 0
    print(f"last finished micro-batch  {'none' if batch is None else batch}")
    print(f"lag                        {total}\n")
    print_table(rows, COLUMNS)
    _explain(rows)
    return 0


def _rows(args: Namespace, sources: list[SourcePosition]) -> list[dict[str, Any]]:
    from barnabas.client.admin.partition_offsets import OffsetSpec
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.spark.checkpoint import lags_of, partitions_of

    partitions = partitions_of(sources)
    with admin_client(args) as admin:
        # What is gone is left out: asking for its offsets would wait for it to come.
        topics = admin.describe_topics({partition.topic for partition in partitions}, raise_errors=False)
        there = {TopicPartition(topic.name, each.partition) for topic in topics.values() for each in topic.partitions}
        known = dict.fromkeys(sorted(partitions & there), int(OffsetSpec.EARLIEST))
        begins = admin.list_offsets(known, raise_errors=False) if known else {}
        ends = admin.list_offsets(dict.fromkeys(known, int(OffsetSpec.LATEST)), raise_errors=False) if known else {}
    first, last = ({partition: each.offset for partition, each in found.items()} for found in (begins, ends))
    return [
        {
            "source": each.source,
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            **each.figures,
        }
        for each in lags_of(sources, first, last)
    ]


def _explain(rows: list[dict[str, Any]]) -> None:
    if any(row["end"] is None for row in rows):
        note("partitions without an end no longer exist, or their leader could not be asked")
    if any(row["lost"] for row in rows):
        note("lost: offsets that the query has not read and the topic no longer has; see failOnDataLoss")
    if any(row["beyond"] for row in rows):
        note("beyond: offsets that the query has read behind the end; the topic was created again, or lost records")
    if any(row["planned"] is not None for row in rows):
        note("planned: the next micro-batch's end; it was begun and not finished, and runs again")
