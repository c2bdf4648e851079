"""Which tests run one after the other in one process of pytest-xdist, for they share what is dear to start.

Its own groups (`xdist_group`) do not do: pytest 9.2 leaves out of a test's name what pytest-xdist 3.8 adds to it.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling

#: What stands for the Apache Kafka of tests/contract, and what is not to run at the same time as others of its kind.
APACHE_KAFKA, ZOOKEEPER = "apache-kafka", "zookeeper"
#: Begun first: they take longest.
LONG_GROUPS = ("spark", APACHE_KAFKA, "interop")
#: Folders whose tests share one Spark, or one broker.
_FOLDERS = ("spark", "interop")
_FILES = {
    # They ask for the Apache Kafka of the session without a parameter.
    "tests/contract/test_admin_controllers.py": APACHE_KAFKA,
    "tests/contract/broker/test_compression_levels.py": APACHE_KAFKA,
    "tests/contract/test_local_zookeeper.py": ZOOKEEPER,
    "tests/contract/test_mixed_secure_zookeeper.py": ZOOKEEPER,
    "tests/contract/test_our_zookeeper_controller.py": ZOOKEEPER,
    "tests/contract/test_secured_replication.py": ZOOKEEPER,
    "tests/contract/test_secured_zookeeper.py": ZOOKEEPER,
}


def group_of(nodeid: str) -> str:
    """Return the group of a test: others go by their files, which share fixtures of a module."""
    file, _, name = nodeid.partition("::")
    folder = PurePosixPath(file).parts[1]
    if folder in _FOLDERS:
        return folder
    if folder == "contract" and APACHE_KAFKA in name.partition("[")[2]:
        return APACHE_KAFKA
    return _FILES.get(file, file)


def place_of(nodeid: str) -> int:
    """Return what to sort tests by, so that the longest groups come first."""
    group = group_of(nodeid)
    return LONG_GROUPS.index(group) if group in LONG_GROUPS else len(LONG_GROUPS)


class GroupScheduling(LoadScopeScheduling):
    """Gives each process whole groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
