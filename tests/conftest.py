"""Runs the suite uncompiled when asked: BARNABAS_UNCOMPILED=1 makes every barnabas module load from its source."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType


class SourceOnlyFinder:
    """Finds barnabas modules as `.py` files even where a compiled one lies beside them."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name.startswith("barnabas.") else None
        if spec is None or not isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
            return spec
        source = os.path.join(os.path.dirname(spec.loader.path), name.rpartition(".")[2] + ".py")
        return importlib.util.spec_from_file_location(name, source, loader=SourceFileLoader(name, source))


if os.environ.get("BARNABAS_UNCOMPILED"):
    sys.meta_path.insert(0, SourceOnlyFinder)
