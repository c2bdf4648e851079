"""The sink's options about its guarantee."""

from __future__ import annotations

import pytest

from barnabas.client.producer.producer_config import ProducerConfig
from barnabas.spark.errors import OptionError
from barnabas.spark.foreach_batch import batch_writer
from barnabas.spark.options import SinkOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def test_without_the_option_the_sink_writes_at_least_once() -> None:
    assert SinkOptions(SERVERS).guarantee == "at-least-once"


def test_exactly_once_has_brokers_longest_time_out_unless_another_is_given() -> None:
    options = SinkOptions({**SERVERS, "guarantee": "exactly-once"})
    shorter = SinkOptions({**SERVERS, "guarantee": "Exactly-Once", "kafka.transaction.timeout.ms": "1000"})

    assert options.client["transaction.timeout.ms"] == "900000"
    assert shorter.client["transaction.timeout.ms"] == "1000"
    assert (options.transactional_id_prefix, options.decision_topic) == ("barnabas-spark", "barnabas-spark-decisions")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"guarantee": "twice"}, "must be at-least-once or exactly-once"),
        ({"decisionTopic": "d"}, "for guarantee=exactly-once only"),
        ({"guarantee": "exactly-once", "transactionalIdPrefix": " "}, "is empty"),
        ({"guarantee": "exactly-once", "kafka.transactional.id": "mine"}, "transactionalIdPrefix"),
        ({"guarantee": "exactly-once", "kafka.acks": "1"}, "transactions need acks=all"),
    ],
)
def test_what_contradicts_the_guarantee_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SinkOptions({**SERVERS, **given})


def test_foreach_batch_takes_the_sinks_options_and_writes_at_least_once() -> None:
    assert callable(batch_writer({**SERVERS, "topic": "counts"}))
    with pytest.raises(OptionError, match="foreachBatch writes at least once"):
        batch_writer({**SERVERS, "topic": "counts", "guarantee": "exactly-once"})
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        batch_writer({"topic": "counts"})


def test_with_two_phase_commit_there_is_no_time_out_and_the_producer_takes_the_settings() -> None:
    options = SinkOptions({**SERVERS, "guarantee": "exactly-once", "kafka.transaction.two.phase.commit.enable": "true"})

    settled = ProducerConfig({**options.client, "transactional.id": "any"}, {})

    assert settled.transactional_id == "any"
    with pytest.raises(OptionError, match=r"transaction\.timeout\.ms has no meaning with"):
        SinkOptions({
            **SERVERS,
            "guarantee": "exactly-once",
            "kafka.transaction.two.phase.commit.enable": "true",
            "kafka.transaction.timeout.ms": "1000",
        })  # fmt: skip
