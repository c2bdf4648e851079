"""Runs cases of Kafka's TopologyTestDriver through ours: `python -m tools.streams_vectors FILE`.

A case is a JSON object with a topology in steps, inputs, and what Apache Kafka 4.3.1 made of them. A file has one a
line, and may be gzipped. `expressions` are the lambdas, `steps` calls the DSL and the Processor API, `processors` are
the users' processors, `running` drives the topology, `comparing` finds the first difference.
"""
