"""Parts of a run that some seeds have beside producers and groups: topics, applications and checks of their own.

Each is a `Workload`: it adds its applications before the faults begin, and is asked at the end whether what it knows is
so. Its topics are not read by the groups of the scenario, so that what it does to them (records that are deleted,
compacted, or gone with their topic) does not blur what must hold for those.
"""
