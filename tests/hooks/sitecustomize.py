"""Import hooks for the suite and its child processes; Python loads this file when PYTHONPATH names its folder.

BARNABAS_UNCOMPILED=1 makes every barnabas module load from its source, even where a compiled one lies beside it, and
hides Cython, as on a user's machine.
BARNABAS_BREAK=module:qualified.name replaces that function, for `./run checklist --verify`: by one that raises, or as
BARNABAS_BREAK_HOW says (see `planting`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any


def break_function(module: ModuleType, qualified_name: str) -> None:
    """Replace a function, method or property of the module; raises KeyError when it has none of that name."""
    import planting

    *path, name = qualified_name.split(".")
    owner: Any = module
    for part in path:
        owner = getattr(owner, part)
    how = os.environ.get("BARNABAS_BREAK_HOW", "raise")
    planting.plant(owner, name, f"{module.__name__}:{qualified_name}", how)


class BreakingLoader(SourceFileLoader):
    """Executes the module as usual, then breaks one function of it."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        break_function(module, os.environ["BARNABAS_BREAK"].partition(":")[2])


class SourceOnlyFinder:
    """Finds barnabas modules as `.py` files, and the one that is to be broken with a loader that breaks it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "barnabas":
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None:
            return spec
        source = spec.origin
        if isinstance(spec.loader, ExtensionFileLoader):
            source = os.path.join(os.path.dirname(spec.origin), name.rpartition(".")[2] + ".py")
        breaking = os.environ.get("BARNABAS_BREAK", "").partition(":")[0] == name
        loader = (BreakingLoader if breaking else SourceFileLoader)(name, source)
        places = spec.submodule_search_locations
        return spec_from_file_location(name, source, loader=loader, submodule_search_locations=places)


def install() -> None:
    """Put the finder in front, once, when one of the two variables asks for it."""
    wanted = os.environ.get("BARNABAS_UNCOMPILED") or os.environ.get("BARNABAS_BREAK")
    if wanted and SourceOnlyFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceOnlyFinder)
        os.environ["BARNABAS_UNCOMPILED"] = "1"
        sys.modules["cython"] = None  # type: ignore[assignment]  # users need no Cython, so the stand-in must do


install()
