"""Tests of topologies in the process: Kafka's TopologyTestDriver, without Spark and without a broker.

Rules of the room
-----------------
1. The driver runs the engine that runs on Spark: what a test sees is what the application does, with one partition of
   each topic.
2. A record that is piped in is worked off before the call returns, with all that it brings about in repartition topics.
3. Time is the test's: `advance_wall_clock_time` moves it, records move stream time. Nothing sleeps.
4. After each record caches are flushed, as Kafka's driver does, so every update of a table is seen unless
   `suppress` holds it back.

Files: `topology_test_driver`, `test_topics` (input and output topics).
"""

from barnabas.streams.testing.test_topics import TestInputTopic, TestOutputTopic, TestRecord
from barnabas.streams.testing.topology_test_driver import TopologyTestDriver

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]
