"""The pages of docs/reference that are made from the code are as the code is now."""

from __future__ import annotations

import pytest

from barnabas.config.config_def import SECTIONS, definitions
from barnabas.config.support import SUPPORTED
from tools import errors_table, settings_table


@pytest.mark.parametrize("page", [settings_table, errors_table], ids=lambda page: page.__name__)
def test_the_page_is_not_stale(page: object) -> None:
    made = page.table()  # type: ignore[attr-defined]
    path = page.PATH  # type: ignore[attr-defined]

    assert path.read_text(encoding="utf-8") == made, f"python -m {page.__name__} --write"  # type: ignore[attr-defined]


def test_every_supported_setting_has_a_meaning_and_every_meaning_a_setting() -> None:
    known = settings_table.meanings()
    supported = {f"{section}/{name}" for section in SECTIONS for name in SUPPORTED[section]}
    missing = {place for place in supported if place not in known and place.partition("/")[2] not in known}
    used = supported | {place.partition("/")[2] for place in supported}

    assert not missing, "say in tools/setting_meanings.txt what they do"
    assert set(known) <= used
    assert all(definitions(section).keys.keys() >= SUPPORTED[section] for section in SECTIONS)


def test_every_error_has_a_text_and_one_place() -> None:
    page = errors_table.table()

    for error in errors_table.classes():
        assert error.__doc__, error
        assert page.count(f"| `{error.__name__}` | ") >= 1, error
