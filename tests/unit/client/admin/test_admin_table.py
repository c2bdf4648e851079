"""Everything that Java's admin client offers is here, or tools/admin_comparison.py says why not."""

from __future__ import annotations

import shutil

import pytest

from barnabas import admin
from tests.peers import apache_kafka
from tools import admin_comparison, admin_table, java_admin


def test_the_page_is_what_the_code_makes_it() -> None:
    assert admin_table.PATH.read_text(encoding="utf-8") == admin_table.table(), "python -m tools.admin_table --write"


@pytest.mark.parametrize("kind", ["methods", "options", "values", "enums"])
def test_all_that_java_offers_is_here_or_has_a_reason_why_not(kind: str) -> None:
    found = getattr(admin_comparison, f"_{kind}")(java_admin.stored())
    missing = [entry for entry in found if not entry.exists and not entry.reason]
    assert missing == []


def test_the_tables_say_nothing_that_is_not_java_s() -> None:
    assert admin_comparison.unused() == set()


def test_every_value_is_found_in_one_place() -> None:
    paths = {*admin_comparison.CLASSES.values(), *admin_comparison.ENUMS.values()}
    assert {path.rpartition(".")[2] for path in paths} <= set(admin.__all__)
    assert all(getattr(admin, name) for name in admin.__all__)


@pytest.mark.timeout(300)  # a fresh machine fetches Apache Kafka
def test_what_java_offers_is_what_its_jar_says() -> None:
    if apache_kafka.why_not() or shutil.which("javap") is None:
        pytest.skip("javap or Apache Kafka's jars are missing")
    assert java_admin.read() == java_admin.stored(), "python -m tools.java_admin --write"
