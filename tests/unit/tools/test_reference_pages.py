"""The pages of docs/reference that are made from the code are as the code is now."""

from __future__ import annotations

import pytest

from barnabas.config.config_def import SECTIONS, definitions
from barnabas.config.meanings import meanings
from barnabas.config.support import SUPPORTED
from tests.peers import apache_kafka
from tools import clients_comparison, clients_table, errors_table, java_clients, settings_table


@pytest.mark.parametrize("page", [settings_table, errors_table, clients_table], ids=lambda page: page.__name__)
def test_the_page_is_not_stale(page: object) -> None:
    made = page.table()  # type: ignore[attr-defined]
    path = page.PATH  # type: ignore[attr-defined]

    assert path.read_text(encoding="utf-8") == made, f"python -m {page.__name__} --write"  # type: ignore[attr-defined]


def test_every_supported_setting_has_a_meaning_and_every_meaning_a_setting() -> None:
    known = meanings()
    supported = {f"{section}/{name}" for section in SECTIONS for name in SUPPORTED[section]}
    missing = {place for place in supported if place not in known and place.partition("/")[2] not in known}
    used = supported | {place.partition("/")[2] for place in supported}

    assert not missing, "say in config/setting_meanings.txt what they do"
    assert set(known) <= used
    assert all(definitions(section).keys.keys() >= SUPPORTED[section] for section in SECTIONS)


def test_every_error_has_a_text_and_one_place() -> None:
    page = errors_table.table()

    for error in errors_table.classes():
        assert error.__doc__, error
        assert page.count(f"| `{error.__name__}` | ") >= 1, error


def test_all_that_javas_clients_have_is_here_or_left_out_for_a_reason() -> None:
    missing = [entry.java for entry in clients_comparison.entries() if not entry.here and not entry.reason]
    known = {entry.java for entry in clients_comparison.entries()}

    assert missing == []
    assert set(clients_comparison.CLASSES) <= known
    assert {name for name in clients_comparison.METHODS if "." in name} <= known


@pytest.mark.slow
@pytest.mark.skipif(apache_kafka.why_not() is not None, reason="Java or Maven is missing")
def test_the_list_of_javas_clients_is_that_of_the_jar() -> None:
    assert java_clients.read() == java_clients.stored(), "python -m tools.java_clients --write"
