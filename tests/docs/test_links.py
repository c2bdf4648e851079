"""Every link between the papers leads somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    lost = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            lost.append(link)

    assert not lost


def test_every_page_of_the_documentation_can_be_reached_from_the_readme() -> None:
    reached, found = set(), [ROOT / "README.md"]
    while found:
        page = found.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page))
        found += [target for target in targets if target.suffix == ".md" and target.exists()]

    assert set(PAGES) <= reached
