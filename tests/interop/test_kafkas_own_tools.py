"""Apache Kafka's own command-line tools, with its Java clients, against our broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas import Broker
from tests.interop.three_brokers import count_of
from tests.peers import apache_kafka
from tests.peers.java_tools import JavaTools

# The first test of a fresh machine fetches Apache Kafka.
pytestmark = pytest.mark.timeout(300)

NewName = Callable[[str], str]
Run = Callable[..., str]


@pytest.fixture
def run(java: JavaTools, broker: Broker) -> Run:
    """Runs a tool that must succeed; what it prints."""

    def call(tool: str, *arguments: str, stdin: str = "") -> str:
        name = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
        server = ("--bootstrap-server", broker.bootstrap_servers)
        # These have subcommands, which their general options stand before.
        before = tool in ("TransactionsCommand", "FeatureCommand")
        ordered = (*server, *arguments) if before else (*arguments, *server)
        done = java.run(name, *ordered, stdin=stdin)
        assert done.code == 0, done.out[-2000:] + done.err[-2000:]
        return done.out

    return call


def table(printed: str, key: str) -> list[dict[str, str]]:
    """The rows below the heading line that begins with `key`."""
    lines = printed.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(key))
    names = lines[start].split()
    rows = (line.strip().split(maxsplit=len(names) - 1) for line in lines[start + 1 :])
    return [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]


def produce(run: Run, topic: str, count: int, *options: str) -> str:
    size = ("--record-size", "100", "--throughput", "-1")
    return run("ProducerPerformance", "--topic", topic, "--num-records", str(count), *size, *options)


def consumer_groups(run: Run, *arguments: str) -> str:
    return run("consumer.group.ConsumerGroupCommand", *arguments)


def test_topics(run: Run, broker: Broker, new_name: NewName) -> None:
    topic = new_name("java")
    settings = ("--config", "retention.ms=3600000", "--config", "cleanup.policy=compact,delete")
    created = run("TopicCommand", "--create", "--topic", topic, "--partitions", "4", *settings)
    assert f"Created topic {topic}." in created
    run("TopicCommand", "--create", "--topic", topic, "--if-not-exists")
    run("TopicCommand", "--alter", "--topic", topic, "--partitions", "6")
    described = run("TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 6" in described
    assert "retention.ms=3600000" in described
    assert described.count("Isr: ") == 6
    assert all(
        len(line.split("Isr: ")[1].split()[0].split(",")) == count_of(broker) for line in described.splitlines()[1:]
    )
    assert run("TopicCommand", "--describe", "--under-replicated-partitions") == ""
    assert run("TopicCommand", "--describe", "--unavailable-partitions") == ""
    run("TopicCommand", "--delete", "--topic", topic)
    assert topic not in run("TopicCommand", "--list").split()


def test_a_topic_that_exists_or_a_name_that_cannot_be_is_an_error(
    java: JavaTools, broker: Broker, run: Run, new_name: NewName
) -> None:
    topic = new_name("java")
    run("TopicCommand", "--create", "--topic", topic)
    command = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.bootstrap_servers, "--create")
    again = java.run(*command, "--topic", topic)
    assert again.code == 1
    assert "already exists" in again.out + again.err
    bad_setting = java.run(*command, "--topic", f"{topic}-2", "--config", "retention.ms=soon")
    assert bad_setting.code == 1
    assert "retention.ms" in bad_setting.out + bad_setting.err
    too_wide = java.run(*command, "--topic", f"{topic}-3", "--replication-factor", "4")
    assert too_wide.code == 1
    assert "replication factor" in (too_wide.out + too_wide.err).lower()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_sends_and_shows_records(run: Run, new_name: NewName, protocol: str) -> None:
    topic = new_name("java")
    run("TopicCommand", "--create", "--topic", topic, "--partitions", "1")
    parsed = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    options = [part for name in parsed for part in ("--reader-property", name)]
    run("ConsoleProducer", "--topic", topic, *options, stdin="h:1\tk1\tv1\nh:2\tk2\tNULL\nNULL\tNULL\t\n")
    shown = ("print.key=true", "print.headers=true", "print.offset=true", "print.timestamp=false")
    options = [part for name in shown for part in ("--formatter-property", name)]
    options += ["--command-property", f"group.protocol={protocol}", "--timeout-ms", "20000"]
    printed = run("consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "3", *options)
    assert printed.splitlines() == [
        "Offset:0\th:1\tk1\tv1",
        "Offset:1\th:2\tk2\tnull",
        "Offset:2\tNO_HEADERS\tnull\t",
    ]


def test_groups(run: Run, new_name: NewName) -> None:
    topic, group = new_name("java"), new_name("group")
    produce(run, topic, 1000)
    run("ConsumerPerformance", "--topic", topic, "--num-records", "1000", "--group", group, "--timeout", "20000")
    listed = consumer_groups(run, "--list", "--state", "--type")
    assert {"GROUP": group, "TYPE": "Classic", "STATE": "Empty"} in table(listed, "GROUP")
    assert group in run("GroupsCommand", "--list", "--consumer")
    rows = table(consumer_groups(run, "--describe", "--group", group, "--offsets"), "GROUP")
    assert sum(int(row["CURRENT-OFFSET"]) for row in rows) == 1000
    assert {row["LAG"] for row in rows} == {"0"}
    (state,) = table(consumer_groups(run, "--describe", "--group", group, "--state").replace(" (ID)", ""), "GROUP")[:1]
    assert group in state["GROUP"]
    for target in (["--to-earliest"], ["--to-datetime", "2020-01-01T00:00:00.000"], ["--by-duration", "P1D"]):
        reset = consumer_groups(run, "--reset-offsets", "--group", group, "--topic", topic, *target, "--execute")
        moved = table(reset, "GROUP")
        assert len(moved) == 3
        assert sum(int(row["NEW-OFFSET"]) for row in moved) == 0
    lags = table(consumer_groups(run, "--describe", "--group", group), "GROUP")
    assert sum(int(row["LAG"]) for row in lags) == 1000
    shifted = ("--reset-offsets", "--group", group, "--topic", f"{topic}:0", "--shift-by", "2", "--execute")
    assert len(table(consumer_groups(run, *shifted), "GROUP")) == 1
    consumer_groups(run, "--delete-offsets", "--group", group, "--topic", topic)
    consumer_groups(run, "--delete", "--group", group)
    assert group not in consumer_groups(run, "--list")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_the_performance_tools(run: Run, new_name: NewName, protocol: str) -> None:
    topic, group = new_name("java"), new_name("group")
    run("TopicCommand", "--create", "--topic", topic, "--partitions", "4")
    assert "20000 records sent" in produce(run, topic, 20000, "--command-property", "compression.type=lz4")
    options = ("--command-property", f"group.protocol={protocol}", "--timeout", "20000")
    consumed = run("ConsumerPerformance", "--topic", topic, "--num-records", "20000", "--group", group, *options)
    assert int(consumed.strip().splitlines()[-1].split(",")[4]) >= 20000
    lags = table(consumer_groups(run, "--describe", "--group", group), "GROUP")
    assert sum(int(row["CURRENT-OFFSET"]) for row in lags) == 20000
    assert {row["LAG"] for row in lags} == {"0"}


def test_offsets_and_deleting_records(run: Run, new_name: NewName, tmp_path: Path) -> None:
    topic = new_name("java")
    run("TopicCommand", "--create", "--topic", topic, "--partitions", "1")
    produce(run, topic, 100)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 30}]}))
    assert "low_watermark: 30" in run("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    at = {time: run("GetOffsetShell", "--topic", topic, "--time", time).strip() for time in ("-1", "-2", "0")}
    assert at == {"-1": f"{topic}:0:100", "-2": f"{topic}:0:30", "0": f"{topic}:0:30"}
    assert run("GetOffsetShell", "--topic", topic, "--time", "-3").startswith(f"{topic}:0:")


def test_configs(run: Run, new_name: NewName) -> None:
    topic, group = new_name("java"), new_name("group")
    run("TopicCommand", "--create", "--topic", topic)

    def configs(kind: str, name: str, *arguments: str) -> str:
        return run("kafka.admin.ConfigCommand", "--entity-type", kind, "--entity-name", name, *arguments)

    configs("topics", topic, "--alter", "--add-config", "retention.ms=7200000,cleanup.policy=[compact,delete]")
    described = configs("topics", topic, "--describe")
    assert "retention.ms=7200000 sensitive=false" in described
    assert "cleanup.policy=compact,delete sensitive=false" in described
    configs("topics", topic, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in configs("topics", topic, "--describe")
    assert "segment.bytes=1073741824" in configs("topics", topic, "--describe", "--all")
    assert "log.segment.bytes=" in configs("brokers", "1", "--describe", "--all")
    configs("groups", group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in configs("groups", group, "--describe")


def test_quotas(run: Run, new_name: NewName) -> None:
    client = new_name("client")
    entity = ("--entity-type", "clients", "--entity-name", client)
    run("kafka.admin.ConfigCommand", *entity, "--alter", "--add-config", "producer_byte_rate=1000000")
    assert "producer_byte_rate=1000000" in run("kafka.admin.ConfigCommand", *entity, "--describe")
    run("kafka.admin.ConfigCommand", *entity, "--alter", "--delete-config", "producer_byte_rate")
    assert "producer_byte_rate" not in run("kafka.admin.ConfigCommand", *entity, "--describe")


def test_the_cluster(run: Run, broker: Broker, new_name: NewName) -> None:
    topic = new_name("java")
    run("TopicCommand", "--create", "--topic", topic, "--partitions", "1")
    produce(run, topic, 10)
    assert "Produce(0): 0 to 13 [usable: 13]" in run("BrokerApiVersionsCommand")
    assert run("ClusterTool", "cluster-id").startswith("Cluster ID: ")
    assert "unfenced" in run("ClusterTool", "list-endpoints")
    assert "group.version" in run("FeatureCommand", "describe")
    printed = run("LogDirsCommand", "--describe", "--topic-list", topic)
    brokers = json.loads(printed.splitlines()[-1])["brokers"]
    assert len(brokers) == count_of(broker)
    for directories in brokers:
        (partition,) = directories["logDirs"][0]["partitions"]
        assert partition["partition"] == f"{topic}-0"
        assert partition["size"] > 0
    run("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "No partition reassignments found" in run("reassign.ReassignPartitionsCommand", "--list")
    assert "Avg latency" in run(
        "EndToEndLatency", "--topic", topic, "--num-records", "50", "--producer-acks", "all", "--record-size", "100"
    )


def test_transactions_are_listed(run: Run, new_name: NewName) -> None:
    topic = new_name("java")
    options = ("--transactional-id", topic, "--transaction-duration-ms", "50")
    assert "2000 records sent" in produce(run, topic, 2000, *options)
    assert topic in run("TransactionsCommand", "list")
    assert "CompleteCommit" in run("TransactionsCommand", "describe", "--transactional-id", topic)
    assert "ProducerId" in run("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", "0")


def test_the_verifiable_tools(run: Run, broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("java"), new_name("group")
    # It closes its producer when its JVM ends, so it has one of its own.
    command = ("--topic", topic, "--max-messages", "1000", "--throughput", "-1")
    server = ("--bootstrap-server", broker.bootstrap_servers)
    done = apache_kafka.run_tool("org.apache.kafka.tools.VerifiableProducer", *server, *command)
    assert done.returncode == 0, done.stderr
    sent = [json.loads(line) for line in done.stdout.splitlines() if "producer_send_success" in line]
    assert sorted(int(event["value"]) for event in sent) == list(range(1000))
    consume = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest", "--max-messages", "1000")
    printed = run("VerifiableConsumer", *consume, "--verbose")
    got = [json.loads(line) for line in printed.splitlines() if '"record_data"' in line]
    assert {(event["partition"], event["offset"], event["value"]) for event in got} == {
        (event["partition"], event["offset"], event["value"]) for event in sent
    }
    assert '"success":true' in printed


def test_what_is_not_supported_says_so(java: JavaTools, broker: Broker) -> None:
    quorum = java.run(
        "org.apache.kafka.tools.MetadataQuorumCommand",
        "--bootstrap-server", broker.bootstrap_servers, "describe", "--status",
    )  # fmt: skip
    if count_of(broker) > 1:
        assert "CurrentVoters" in quorum.out
        return
    assert quorum.code == 1
    assert "does not support DESCRIBE_QUORUM" in quorum.err
