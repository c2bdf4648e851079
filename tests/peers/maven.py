"""Jars fetched through Maven into the user's cache, once; several processes may ask at the same time."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.cache import CACHES, locked

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peer</groupId><artifactId>peer</artifactId><version>1</version><dependencies>{dependencies}</dependencies>
</project>"""
_DEPENDENCY = """<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
{exclusions}</dependency>"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_COMPLETE = "complete"


class Jars(NamedTuple):
    """What one folder of the cache has: artifacts, and with them what they need unless they come `alone`."""

    folder: str
    artifacts: tuple[tuple[str, str, str], ...]
    alone: bool = False

    @property
    def cache(self) -> Path:
        """Where the jars are, or will be: elsewhere as soon as others are wanted."""
        return CACHES / f"{self.folder}-{hashlib.sha256(self._pom().encode()).hexdigest()[:8]}"

    def why_not(self) -> str | None:
        """Why the jars cannot be had here; None when they can."""
        if not (self.cache / _COMPLETE).exists() and shutil.which("mvn") is None:
            return f"Maven is missing, which fetches {self.artifacts[0][1]} (apt-get install maven)"
        return None

    def fetch(self) -> Path:
        """The folder with the jars; the first call takes about a minute.

        Raises:
            RuntimeError: Maven is missing or could not fetch them; with its words.
        """
        if missing := self.why_not():
            raise RuntimeError(missing)
        with locked(self.cache):
            if not (self.cache / _COMPLETE).exists():
                self._copy_dependencies()
                (self.cache / _COMPLETE).touch()
        return self.cache / "jars"

    def _copy_dependencies(self) -> None:
        (self.cache / "pom.xml").write_text(self._pom(), encoding="utf-8")
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={self.cache}/jars"]
        done = subprocess.run(command, cwd=self.cache, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Maven could not fetch {self.artifacts[0][1]}: {done.stdout[-2000:]}")

    def _pom(self) -> str:
        exclusions = _ALONE if self.alone else ""
        found = (
            _DEPENDENCY.format(group=group, artifact=artifact, version=version, exclusions=exclusions)
            for group, artifact, version in self.artifacts
        )
        return _POM.format(dependencies="".join(found))
