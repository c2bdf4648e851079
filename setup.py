"""Compile every module that asks for it in its first line (`# cython: ...`); everything else is in pyproject.toml.

BARNABAS_PURE=1 compiles nothing: the wheel then runs everywhere, slower.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("src")


def compiled_modules() -> list[Extension]:
    """Return the modules whose first line is a Cython directive."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        with path.open(encoding="utf-8") as file:
            if file.readline().startswith("# cython:"):
                name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
                found.append(Extension(name, [str(path)], extra_compile_args=["-O2", "-g0"]))
    return found


def extensions() -> list[Extension]:
    """Return the modules as C extensions; none for a pure wheel, which then needs no Cython either."""
    if os.environ.get("BARNABAS_PURE"):
        return []
    from Cython.Build import cythonize

    return cythonize(compiled_modules(), nthreads=2, build_dir="build/cython")


setup(ext_modules=extensions(), options={"build_ext": {"parallel": 2}})
