"""Puts the import hooks of tests/hooks in place, here and, through PYTHONPATH, in every child process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HOOKS = str(Path(__file__).parent / "hooks")

if os.environ.get("BARNABAS_UNCOMPILED") or os.environ.get("BARNABAS_BREAK"):
    for name in [name for name in sys.modules if name.partition(".")[0] == "barnabas"]:
        del sys.modules[name]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HOOKS, os.environ.get("PYTHONPATH")]))
    sys.path.insert(0, HOOKS)
    sys.modules.pop("sitecustomize", None)
    import sitecustomize

    sitecustomize.install()
