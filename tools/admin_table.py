"""Prints docs/admin.md: each operation of Java's Admin interface, and what it is called here.

`python -m tools.admin_table` prints it, `python -m tools.admin_table --write` writes the file.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from barnabas import AdminClient
from tools import apache_kafka

PATH = Path(__file__).parent.parent / "docs" / "admin.md"

#: The operations of org.apache.kafka.clients.admin.Admin of Apache Kafka 4.3; `java_methods` finds them in its jar.
_JAVA = """
abortTransaction addRaftVoter alterClientQuotas alterConsumerGroupOffsets alterPartitionReassignments
alterReplicaLogDirs alterShareGroupOffsets alterStreamsGroupOffsets alterUserScramCredentials clientInstanceId
close createAcls createDelegationToken createPartitions createTopics deleteAcls deleteConsumerGroupOffsets
deleteConsumerGroups deleteRecords deleteShareGroupOffsets deleteShareGroups deleteStreamsGroupOffsets
deleteStreamsGroups deleteTopics describeAcls describeClassicGroups describeClientQuotas describeCluster
describeConfigs describeConsumerGroups describeDelegationToken describeFeatures describeLogDirs
describeMetadataQuorum describeProducers describeReplicaLogDirs describeShareGroups describeStreamsGroups
describeTopics describeTransactions describeUserScramCredentials electLeaders expireDelegationToken
fenceProducers forceTerminateTransaction incrementalAlterConfigs listClientMetricsResources listConfigResources
listConsumerGroupOffsets listConsumerGroups listGroups listOffsets listPartitionReassignments
listShareGroupOffsets listStreamsGroupOffsets listTopics listTransactions metrics registerMetricForSubscription
removeMembersFromConsumerGroup removeRaftVoter renewDelegationToken unregisterBroker
unregisterMetricFromSubscription updateFeatures
"""
JAVA = tuple(_JAVA.split())

#: Those that Java has deprecated, by what takes their place in both.
OTHER_NAMES = {
    "listClientMetricsResources": "list_config_resources",
    "listConsumerGroups": "list_groups",
}

_TELEMETRY = "clients push no telemetry (KIP-714), so there is nothing to add to it"
#: Those that there are not, and why.
NOT_OFFERED = {
    "registerMetricForSubscription": _TELEMETRY,
    "unregisterMetricFromSubscription": _TELEMETRY,
}

_HEAD = """# The admin client
Made from the code by `python -m tools.admin_table --write`; a test fails when it is stale. The operations are those of
Java's `Admin` in Apache Kafka 4.3. All take `timeout=` (seconds). Those that work on several things give `Results`: a
mapping of what succeeded, whose `errors` has what did not, by key; unless `raise_errors=False`, failures are raised
after everything was tried. An operation that a broker does not offer raises `UnsupportedVersionError`, which names the
API and the broker.

```python
from barnabas import AdminClient, NewTopic

with AdminClient(bootstrap_servers="localhost:9092") as admin:
    admin.create_topics([NewTopic("flights", num_partitions=6, configs={"retention.ms": 86_400_000})])
    results = admin.describe_topics(["flights", "no-such-topic"], raise_errors=False)
    print(results["flights"].partitions, results.errors)
```

| Java | here | what it does |
| --- | --- | --- |
"""


def table() -> str:
    """The page."""
    return _HEAD + "".join(map(_row, JAVA))


def _row(java: str) -> str:
    if java in NOT_OFFERED:
        return f"| {java} | | not offered: {NOT_OFFERED[java]} |\n"
    name = python_name(java)
    documentation = inspect.getdoc(getattr(AdminClient, name)) or ""
    first = re.split(r"(?<=[.;])\s", documentation.split("\n\n")[0].replace("\n", " "))[0].rstrip(";.")
    return f"| {java} | `{name}` | {first.replace('|', chr(92) + '|')} |\n"


def python_name(java: str) -> str:
    """What an operation is called here."""
    return OTHER_NAMES.get(java) or re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), java)


def java_methods() -> list[str]:
    """The methods of the interface, as javap finds them in Apache Kafka's jar, but for `create`."""
    jar = f"{apache_kafka.JARS.fetch()}/kafka-clients-{apache_kafka.VERSION}.jar"
    command = ["javap", "-cp", jar, "org.apache.kafka.clients.admin.Admin"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sorted(set(re.findall(r"(\w+)\(", done.stdout)) - {"create"})


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(table(), encoding="utf-8")
    else:
        print(table(), end="")
