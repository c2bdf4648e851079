"""How Sphinx makes the site of these pages: `./run docs`.

Pages are Markdown (MyST). The API pages are made of the docstrings of the public rooms while it builds; docstrings are
written for people who read code, with backticks for code and indented examples, and become reStructuredText here.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx import addnodes

import barnabas

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
#: The public rooms, and what a reader finds there.
ROOMS = {
    "barnabas": "the clients, the broker, and the values they take and give",
    "barnabas.aio": "the same clients for asyncio",
    "barnabas.admin": "the values of the admin client",
    "barnabas.serializers": "between values and bytes",
    "barnabas.partitioners": "which partition a record goes to",
    "barnabas.assignors": "how members of a classic group share partitions",
    "barnabas.metrics": "the clients' numbers",
    "barnabas.tracing": "traces of OpenTelemetry",
    "barnabas.security": "tokens",
    "barnabas.records": "record batches as bytes",
    "barnabas.spark": "the Spark source and sink",
    "barnabas.streams": "Kafka Streams: the DSL, the Processor API, tests of topologies",
    "barnabas.testing": "for test suites",
}

project = "barnabas"
author = "the barnabas developers"
version = release = barnabas.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "barnabas"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
pygments_style = "friendly"
default_role = "code"
myst_heading_anchors = 3
myst_links_external_new_tab = False
# A name like `type` is an attribute of several classes; none of them is meant where the built-in stands.
suppress_warnings = ["myst.header", "ref.python"]
nitpicky = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "imported-members": True,
    "undoc-members": True,
    "inherited-members": "int,str,tuple,Exception,Enum",
}
python_use_unqualified_type_names = True
maximum_signature_line_length = 100


def _write_api_pages(app: Sphinx) -> None:
    folder = HERE / "reference" / "api"
    folder.mkdir(exist_ok=True)
    shown: dict[int, str] = {}
    for room, what in ROOMS.items():
        things = {name: getattr(import_module(room), name) for name in import_module(room).__all__}
        again = {name: shown[id(thing)] for name, thing in things.items() if id(thing) in shown}
        shown |= {id(thing): room for name, thing in things.items() if name not in again}
        also = "".join(f" Also `{name}` (see [{home}]({home}.md))." for name, home in again.items())
        aliases = [name for name, thing in things.items() if not _has_a_docstring(thing) and name not in again]
        left_out = ", ".join([*again, *aliases])
        text = f"# {room}\n{what[0].upper()}{what[1:]}.{also}\n\n```{{eval-rst}}\n.. automodule:: {room}\n"
        text += f"   :exclude-members: {left_out}\n" if left_out else ""
        text += "".join(f"\n.. autodata:: {room}.{name}\n" for name in aliases if name != "__version__") + "```\n"
        page = folder / f"{room}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def _has_a_docstring(thing: object) -> bool:
    """Whether it is a class or function: aliases of types and constants have none."""
    return isinstance(thing, type) or (callable(thing) and hasattr(thing, "__code__")) or hasattr(thing, "__wrapped__")


def _add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the drawers' pages, in the order of docs/README.md, then the API's. Links out of docs/ become text."""
    page = (HERE / name).parent

    def kept(match: re.Match[str]) -> str:
        target = match[2].partition("#")[0]
        outside = "://" not in target and target and HERE not in (page / target).resolve().parents
        return match[1] if outside else match[0]

    source[0] = re.sub(r"\[([^\]\n]*)\]\(([^)\s]+)\)", kept, source[0])
    if name != root_doc:
        return
    pages = re.findall(r"\]\(((guide|reference|internals)/[\w-]+)\.md\)", source[0])
    api = [f"reference/api/{room}" for room in ROOMS]
    for drawer in ("guide", "reference", "internals"):
        listed = [page for page, where in pages if where == drawer] + (api if drawer == "reference" else [])
        source[0] += "\n```{toctree}\n:hidden:\n:caption: " + drawer.title() + "\n\n" + "\n".join(listed) + "\n```\n"


_CODE = re.compile(r"(`[^`]+`)")


def _as_restructured_text(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape what only reStructuredText reads as markup, and make literal blocks of indented examples."""
    if what == "data":  # an alias of a type: what it has for a docstring is that of `dict` or `Callable`
        lines.clear()
    made: list[str] = []
    for number, line in enumerate(lines):
        begins = line.startswith("    ") and (not number or not lines[number - 1].strip())
        if begins and not (made and made[-1].startswith("    ")) and not _inside_literal(made):
            made += ["::", ""]
        if line.startswith("    "):
            made.append(line)
        else:
            made.append("".join(part if part.startswith("`") else _escaped(part) for part in _CODE.split(line)))
    lines[:] = made


def _inside_literal(made: list[str]) -> bool:
    """Whether the last line that is not blank belongs to a literal block."""
    return next((line for line in reversed(made) if line.strip()), "").startswith("    ")


def _escaped(text: str) -> str:
    return re.sub(r"([*|\\]|(?<=\w)_(?!\w))", r"\\\1", text)


def _forget_names_in_signatures(app: Sphinx, document: nodes.document) -> None:
    """Look no names of types up where nothing is written: that takes a third of the time, and can bring no warning."""
    if app.builder.name == "dummy":
        for link in list(document.findall(addnodes.pending_xref)):
            if link["refdomain"] == "py":
                link.replace_self(link.children)


def setup(app: Sphinx) -> None:
    """Connect what is above; Sphinx calls this."""
    app.connect("doctree-read", _forget_names_in_signatures)
    app.connect("builder-inited", _write_api_pages)
    app.connect("source-read", _add_contents)
    app.connect("autodoc-process-docstring", _as_restructured_text)
