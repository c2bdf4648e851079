"""Fetch the browser modules that the console serves, by package name and version: `python -m tools.console_vendor`.

npm fetches and checks the packages; this takes one file of each, with its licence, and writes down what it took. The
manifest beside the files says version, licence and SHA-256; a test compares them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

VENDOR = Path(__file__).parents[1] / "src" / "barnabas" / "console" / "static" / "vendor"
MANIFEST = VENDOR / "manifest.json"


class Part(NamedTuple):
    """A file of a package, what it is called here, and how it becomes a module: replaced texts, and what is added."""

    package: str
    version: str
    licence: str
    path: str
    name: str
    replaced: tuple[tuple[str, str], ...] = ()
    added: str = ""


#: The bare name "preact" would need an import map, and uPlot's small build is no module.
PARTS = (
    Part("preact", "11.2.0", "MIT", "dist/preact.mjs", "preact.mjs"),
    Part("preact", "11.2.0", "MIT", "hooks/dist/hooks.mjs", "hooks.mjs", (('from"preact"', 'from"./preact.mjs"'),)),
    Part("htm", "3.1.1", "Apache-2.0", "dist/htm.module.js", "htm.mjs"),
    Part("uplot", "1.6.32", "MIT", "dist/uPlot.iife.min.js", "uplot.mjs", (), "\nexport default uPlot;\n"),
    Part("uplot", "1.6.32", "MIT", "dist/uPlot.min.css", "uplot.css"),
)


def main() -> int:
    """Fetch all parts anew; the exit code."""
    VENDOR.mkdir(parents=True, exist_ok=True)
    manifest = []
    with tempfile.TemporaryDirectory() as folder:
        packed = {(p.package, p.version): _packed(p, Path(folder)) for p in {p.package: p for p in PARTS}.values()}
        for part in PARTS:
            content = _module(part, _member(packed[part.package, part.version], part.path))
            (VENDOR / part.name).write_bytes(content)
            licence = f"LICENSE.{part.package}"
            (VENDOR / licence).write_bytes(_member(packed[part.package, part.version], "LICENSE"))
            manifest.append(
                {
                    "file": part.name,
                    "package": part.package,
                    "version": part.version,
                    "path": part.path,
                    "licence": part.licence,
                    "licenceFile": licence,
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
            )
    MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return 0


def _packed(part: Part, folder: Path) -> Path:
    command = ["npm", "pack", "--silent", f"{part.package}@{part.version}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"npm could not fetch {part.package} {part.version}: {done.stderr.strip()}")
    return folder / done.stdout.split()[-1]


def _member(archive: Path, path: str) -> bytes:
    with tarfile.open(archive) as tar:
        found = tar.extractfile(f"package/{path}")
        if found is None:
            raise SystemExit(f"{archive.name} has no {path}")
        return found.read()


def _module(part: Part, content: bytes) -> bytes:
    text = content.decode("utf-8")
    for old, new in part.replaced:
        if old not in text:
            raise SystemExit(f"{part.path} of {part.package} {part.version} has no {old!r} to replace")
        text = text.replace(old, new)
    lines = [line for line in text.splitlines() if not line.startswith("//# sourceMappingURL")]
    return ("\n".join(lines) + "\n" + part.added).encode("utf-8")


if __name__ == "__main__":
    sys.exit(main())
