"""Breaks a function in this very process, whose modules are imported already.

It is replaced in its owner and wherever modules have it by name. In processes that this one starts it is broken while
they import it (tests/hooks/sitecustomize.py).
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from tools.checklist.names import ROOT

HOOKS = str(ROOT / "tests" / "hooks")


def break_here(target: str, how: str) -> None:
    """Break `module:qualified.name` in one of the ways of `planting`. Raises AttributeError, KeyError, ImportError."""
    if HOOKS not in sys.path:
        sys.path.insert(0, HOOKS)
    planting = importlib.import_module("planting")
    os.environ["BARNABAS_BREAK"], os.environ["BARNABAS_BREAK_HOW"] = target, how
    module_name, _, qualified_name = target.partition(":")
    owner: Any = importlib.import_module(module_name)
    *path, name = qualified_name.split(".")
    for part in path:
        owner = getattr(owner, part)
    original = vars(owner)[name]
    planting.plant(owner, name, target, how)
    if isinstance(owner, ModuleType):
        _replace_everywhere(original, vars(owner)[name])


def _replace_everywhere(original: Any, replacement: Any) -> None:
    """Replace a function where modules have imported it, or keep it in a table."""
    for module in [module for module in sys.modules.values() if isinstance(module, ModuleType)]:
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, replacement)
            elif isinstance(value, dict):
                for key in [key for key, found in value.items() if found is original]:
                    value[key] = replacement
