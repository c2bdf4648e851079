"""`AdminClient`: topics, settings, offsets, groups and all else of a cluster."""

from __future__ import annotations

from barnabas.client.admin.cluster_operations import ClusterOperations
from barnabas.client.admin.config_operations import ConfigOperations
from barnabas.client.admin.group_operations import GroupOperations
from barnabas.client.admin.partition_operations import PartitionOperations
from barnabas.client.admin.security_operations import SecurityOperations
from barnabas.client.admin.topic_operations import TopicOperations
from barnabas.client.admin.transaction_operations import TransactionOperations


class AdminClient(
    TopicOperations,
    PartitionOperations,
    ConfigOperations,
    GroupOperations,
    TransactionOperations,
    SecurityOperations,
    ClusterOperations,
):
    """Looks at a cluster and changes it. Methods block, and may be called from several threads, one after the other.

        with AdminClient(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics([NewTopic("flights", num_partitions=6)])
            print(admin.describe_topics(["flights"])["flights"].partitions)

    Settings are Kafka's, as keywords with `_` or in a dict with dots. A method that works on several things tries all
    of them, and then raises if any failed: its error when one did, else an error of the class they share, or a
    `PartialFailureError`; the error's `errors` and `results` tell what became of each. With `raise_errors=False` the
    same is in the `Results` that are returned: a mapping of what succeeded, whose `errors` has what did not.
    What may pass (a broker that is gone, a coordinator that moves) is tried again until `timeout` seconds are over, by
    default `default.api.timeout.ms`; then the error is a `KafkaTimeoutError`.

    Raises `ConfigError` when a setting has an unknown name or a bad value, or `bootstrap_servers` is missing.

    """
