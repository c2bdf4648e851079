"""What the browser gets: other people's modules as their hashes say, texts in both languages, no way for markup."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

STATIC = Path("src/barnabas/console/static")
VENDOR = STATIC / "vendor"
OWN = sorted(STATIC.glob("*.mjs"))
TEXTS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(STATIC.glob("texts/*.json"))}
MANIFEST = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))
#: Keys that the pages put together: t(`menu.${name}`).
BUILT = re.compile(r"\bt\(`([^`]+)`")
PLAIN = re.compile(r"""["']([a-z]+(?:\.[\w.]+)+)["']""")


def test_the_vendored_modules_are_those_of_the_manifest_with_their_licences() -> None:
    listed = {row["file"] for row in MANIFEST} | {row["licenceFile"] for row in MANIFEST} | {"manifest.json"}

    assert {path.name for path in VENDOR.iterdir()} == listed
    for row in MANIFEST:
        assert hashlib.sha256((VENDOR / row["file"]).read_bytes()).hexdigest() == row["sha256"], row["file"]
        assert (VENDOR / row["licenceFile"]).stat().st_size > 1000


def test_all_scripts_together_are_less_than_a_hundred_kilobytes_on_their_way() -> None:
    scripts = [*STATIC.rglob("*.mjs")]

    assert sum(len(gzip.compress(path.read_bytes())) for path in scripts) < 100_000
    assert sum((VENDOR / row["file"]).stat().st_size for row in MANIFEST) < 80_000


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_no_page_makes_markup_or_code_of_data(path: Path) -> None:
    source = path.read_text(encoding="utf-8")

    found = re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|"
        r"setAttribute\(\s*['\"]on|srcdoc|javascript:",
        source,
    )

    assert not found


@pytest.mark.parametrize("path", [*OWN, STATIC / "index.html"], ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    source = path.read_text(encoding="utf-8")

    assert not re.findall(r"""(?:from|import|src|href)\s*[=(]?\s*["'](?:https?:)?//""", source)


def test_every_language_has_the_same_texts_with_the_same_gaps() -> None:
    gaps = {
        language: {key: sorted(re.findall(r"\{\w+\}", text)) for key, text in texts.items()}
        for language, texts in TEXTS.items()
    }

    assert set(TEXTS) == {"en", "ko"}
    assert gaps["en"] == gaps["ko"]
    assert all(text.strip() for texts in TEXTS.values() for text in texts.values())


def test_every_text_that_a_page_names_is_there_and_every_text_is_named() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in OWN)
    python = "".join(path.read_text(encoding="utf-8") for path in Path("src/barnabas/console").glob("*.py"))
    built = [re.compile(re.sub(r"\\\$\\\{.*?\\\}", r"[\\w.]+", re.escape(text))) for text in BUILT.findall(source)]
    plain = set(re.findall(r"""\bt\(\s*"([\w.]+)\"""", source))
    everything = set(PLAIN.findall(source)) | set(PLAIN.findall(python))

    assert plain - TEXTS["en"].keys() == set()
    unused = [key for key in TEXTS["en"] if key not in everything and not any(b.fullmatch(key) for b in built)]
    assert unused == []


def test_one_dialog_asks_for_a_name_to_be_typed() -> None:
    asking = [path.name for path in OWN if re.search(r"\.confirm\b|confirm: ", path.read_text(encoding="utf-8"))]

    assert asking == ["kit.mjs"], "ConfirmDialog hands what was typed to its action"


def test_every_source_of_a_setting_has_a_text() -> None:
    from barnabas.admin import ConfigSource

    assert {f"source.{source.name}" for source in ConfigSource} <= TEXTS["en"].keys()


def test_every_problem_has_its_sentence_and_its_advice() -> None:
    python = (STATIC.parent / "overview.py").read_text(encoding="utf-8")
    named = set(re.findall(r'"(problem\.\w+)"', python))

    assert named
    assert named | {f"{key}.do" for key in named} <= TEXTS["en"].keys()
