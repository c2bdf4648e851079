"""The blocks of README and guide that are marked `<!-- run: spark -->`, each page from top to bottom, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import Broker, Producer
from tests.docs.pages import PAGES, ROOT, Block, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARKED = {page: [block for block in blocks(page) if block.note == "run: spark"] for page in PAGES}
WITH_SPARK = [page for page in PAGES if MARKED[page]]
TOPICS = ("flights", "orders")


@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_spark_code_of_a_page_runs(page: Path, spark: SparkSession, tmp_path: Path) -> None:
    with Broker() as broker:
        fill(broker.bootstrap_servers)
        names: dict[str, Any] = {"spark": spark, "servers": broker.bootstrap_servers}
        names["rows"] = read(spark, broker.bootstrap_servers)
        leave_a_checkpoint(names["rows"], tmp_path)
        try:
            for block in MARKED[page]:
                run(block, names, broker.bootstrap_servers, tmp_path)
                finish(names.pop("query", None))
        finally:
            for query in spark.streams.active:
                query.stop()


def fill(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for topic in TOPICS:
            for number in range(10):
                producer.send(topic, b"\x04UA", key=b"%d" % number)


def read(spark: SparkSession, servers: str) -> Any:
    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", "flights").option("startingOffsets", "earliest").load()


def leave_a_checkpoint(rows: Any, folder: Path) -> None:
    """What a query with the built-in connector would have left: that of ours has the same form."""
    places = {"path": str(folder / "out"), "checkpointLocation": str(folder / "data/checkpoints/read")}
    query = rows.writeStream.format("parquet").options(**places).trigger(availableNow=True).start()
    query.awaitTermination(100)


def run(block: Block, names: dict[str, Any], servers: str, folder: Path) -> None:
    code = block.code.replace("localhost:9092", servers).replace("/data/", f"{folder}/data/")
    code = code.replace('"checkpoints/', f'"{folder}/checkpoints/')
    exec(compile("\n" * (block.line - 1) + code, block.name, "exec"), names)


def finish(query: Any) -> None:
    """Let a query that the block started work on what is there; an error of it is an error of the page."""
    if query is not None:
        query.processAllAvailable()
        query.stop()
