"""The demo's pipeline on its first days, with the broker killed and started again in the midst of it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "flights"))

pytest.importorskip("rich")


@pytest.mark.timeout(240)
def test_a_broker_killed_in_mid_demo_and_started_again_loses_no_acknowledged_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    import check
    import data
    import demo
    from produce import Topics
    from rich.console import Console

    tables, topics = data.load(days=5), Topics()
    total = len(tables.flights) + len(tables.weather)
    half_sent = threading.Event()

    with Broker(data_dir=tmp_path / "broker") as broker:
        demo.create_topics(broker.bootstrap_servers, topics)

        def kill_and_restart() -> None:
            half_sent.wait()
            broker.kill()
            broker.start()

        killer = threading.Thread(target=kill_and_restart)
        killer.start()
        run = demo.run_pipeline(
            spark, broker.bootstrap_servers, tables, topics, tmp_path, Console(quiet=True),
            on_sent=lambda done: half_sent.set() if done > total / 2 else None,
        )  # fmt: skip
        killer.join()

    assert check.compare(run.delays, tables).differences == []
    assert check.compare(run.by_streams, tables).differences == []
    assert run.rows_read == sum(run.sent)
    assert len(run.dead_letters) == run.sent.malformed
    assert run.late_rows == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_both_jobs_of_the_demo_give_the_figures_of_the_data_frames_on_apache_kafka(
    spark: SparkSession, apache: str, tmp_path: Path
) -> None:
    import check
    import data
    import demo
    from produce import Topics
    from rich.console import Console

    tables, topics = data.load(days=5), Topics()
    demo.create_topics(apache, topics)
    run = demo.run_pipeline(spark, apache, tables, topics, tmp_path, Console(quiet=True))

    assert check.compare(run.delays, tables).differences == []
    assert check.compare(run.by_streams, tables).differences == []
    assert run.rows_read == sum(run.sent)
    assert len(run.by_streams) == len(run.delays) > 0


def test_what_spark_has_said_is_kept_where_the_demo_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import demo

    folder, output = tmp_path / "demo", tmp_path / "output"

    def fail(days: int | None) -> None:
        (folder / "spark.log").write_text("the reason", encoding="utf-8")
        raise ValueError("a job has failed")

    folder.mkdir()
    monkeypatch.setattr(demo.tempfile, "mkdtemp", lambda prefix: str(folder))
    monkeypatch.setattr(demo, "OUTPUT", output)
    monkeypatch.setattr(demo, "load", fail)
    monkeypatch.setattr(sys, "argv", ["demo.py"])

    with pytest.raises(ValueError, match="a job has failed"):
        demo.main()

    assert (output / "spark.log").read_text(encoding="utf-8") == "the reason"
    assert "spark.log" in capsys.readouterr().out
    assert not folder.exists()
