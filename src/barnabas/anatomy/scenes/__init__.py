"""The scenes: one per picture of Kafka's documents, each a reducer of events for one subject.

Rule 1. A scene is made for one subject (a client id, a group, a partition). `apply(event)` tells whether the event
belongs to it and changed it; a scene ignores all others.

Rule 2. What a scene shows follows from its events alone, so it may begin in the middle: what it has not seen begin it
leaves out, or shows from the first event that names it.

Rule 3. A scene holds what its picture needs, and of what is over only the last few.

`SCENES` is the table: name, class, and what names a subject in an event.
"""

from __future__ import annotations

from barnabas.anatomy.scenes.cluster import ClusterScene
from barnabas.anatomy.scenes.consumer import ConsumerScene
from barnabas.anatomy.scenes.exchange import ExchangeScene
from barnabas.anatomy.scenes.group import GroupScene
from barnabas.anatomy.scenes.handover import HandoverScene
from barnabas.anatomy.scenes.log import LogScene
from barnabas.anatomy.scenes.producer import ProducerScene
from barnabas.anatomy.scenes.scene import Scene
from barnabas.anatomy.scenes.spark_query import SparkQueryScene
from barnabas.anatomy.scenes.spark_source import SparkSourceScene
from barnabas.anatomy.scenes.streams_task import StreamsTaskScene
from barnabas.anatomy.scenes.transactions import TransactionScene

#: In the order in which they are offered.
SCENES: dict[str, type[Scene]] = {
    "producer": ProducerScene,
    "consumer": ConsumerScene,
    "exchange": ExchangeScene,
    "group": GroupScene,
    "log": LogScene,
    "cluster": ClusterScene,
    "transactions": TransactionScene,
    "query": SparkQueryScene,
    "spark": SparkSourceScene,
    "handover": HandoverScene,
    "streams": StreamsTaskScene,
}
