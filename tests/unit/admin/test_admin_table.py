"""docs/admin.md: every operation of Java's Admin is here, or the page says why not."""

from __future__ import annotations

import shutil

import pytest

from barnabas import AdminClient
from tools import admin_table, apache_kafka


def test_the_page_is_what_the_code_makes_it() -> None:
    assert admin_table.PATH.read_text(encoding="utf-8") == admin_table.table(), "python -m tools.admin_table --write"


@pytest.mark.parametrize("java", [name for name in admin_table.JAVA if name not in admin_table.NOT_OFFERED])
def test_an_operation_of_java_is_here(java: str) -> None:
    assert callable(getattr(AdminClient, admin_table.python_name(java)))


@pytest.mark.timeout(300)  # a fresh machine fetches Apache Kafka
def test_the_list_is_that_of_apache_kafka() -> None:
    if apache_kafka.why_not() or shutil.which("javap") is None:
        pytest.skip("javap or Apache Kafka's jars are missing")
    assert admin_table.java_methods() == sorted(admin_table.JAVA)
