"""`./run fuzz [TARGET] [--seconds N]`: look for inputs that break something; findings go to `fuzz-findings/`.

Without atheris (it has wheels for Linux and a few versions of Python) the corpus is only replayed. With it, the search
is guided by coverage, on the uncompiled sources; what it keeps is replayed on the compiled modules afterwards, for only
those can read beyond a buffer.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.fuzz import TARGETS
from tools.fuzz.corpus import load, save, write_files

FINDINGS = Path("fuzz-findings")
HOOKS = Path(__file__).parents[2] / "tests" / "hooks"
#: A search shorter than so many seconds begins with so many inputs only, as running all would be all that it does.
_SHORT, _FEW = 10, 30
#: An input may take so many seconds and so many megabytes.
_TIMEOUT, _MEMORY = 20, 3000


def main() -> int:
    """Give 1 when something was found."""
    parser = argparse.ArgumentParser(
        prog="./run fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    about = "\n".join(f"{name:14}{text}" for name, (_, text) in TARGETS.items())
    parser.add_argument("target", nargs="?", choices=TARGETS, metavar="TARGET", help=f"all by default\n{about}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--runs", type=int, help="for each target, in place of a time")
    parser.add_argument("--seed", type=int, default=0, help="of the changes that are tried (another each time)")
    parser.add_argument("--keep", action="store_true", help="put what covers more into the corpus, and only that")
    parser.add_argument("--seeds", action="store_true", help="begin with what is made from the byte vectors, too")
    parser.add_argument("--replay", metavar="FOLDER", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = [options.target] if options.target else list(TARGETS)
    if options.replay is not None:
        _replay(chosen[0], [path.read_bytes() for path in sorted(options.replay.iterdir())])
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: replaying the corpus, nothing new is looked for", file=sys.stderr)
        for name in chosen:
            _replay(name, load(name))
        return 0
    broken = [name for name in chosen if not _search(name, options)]
    if broken:
        print(f"broken: {', '.join(broken)}; the inputs are in {FINDINGS}/", file=sys.stderr)
    return 1 if broken else 0


def _replay(name: str, inputs: list[bytes]) -> None:
    from tools.fuzz import target

    chosen = target(name)
    logging.disable(logging.CRITICAL)
    for data in inputs:
        try:
            chosen.run(data)
        except BaseException:
            print(f"{name} breaks at this input: {data.hex()}", file=sys.stderr)
            raise
    print(f"{name}: {len(inputs)} inputs replayed")


def _search(name: str, options: argparse.Namespace) -> bool:
    FINDINGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as folder:
        found, begin, merged = (Path(folder) / part for part in ("found", "begin", "merged"))
        found.mkdir()
        merged.mkdir()
        inputs = load(name)
        if options.seeds or not inputs:
            from tools.fuzz import target

            inputs += target(name).seeds()
        is_short = options.runs is not None or options.seconds < _SHORT
        if is_short:
            inputs = inputs[:: len(inputs) // _FEW + 1]
        write_files(inputs, begin)
        limits = [f"-timeout={_TIMEOUT}", f"-rss_limit_mb={_MEMORY}", f"-artifact_prefix={FINDINGS}/{name}-"]
        length = f"-max_total_time={options.seconds}" if options.runs is None else f"-runs={options.runs}"
        searching = [length, f"-seed={options.seed}", "-max_len=4096", "-verbosity=0", *limits]
        good = _engine(name, [*searching, str(found), str(begin)])
        good &= _compiled(name, found) and (is_short or _compiled(name, begin))
        if options.keep and good:
            good = _engine(name, ["-merge=1", "-verbosity=0", *limits, str(merged), str(begin), str(found)])
            save(name, [path.read_bytes() for path in merged.iterdir()])
        print(f"{name}: {len(inputs)} inputs to begin with, {len(list(found.iterdir()))} that covered more")
    return good


def _engine(name: str, arguments: list[str]) -> bool:
    path = os.pathsep.join(filter(None, [str(HOOKS), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "BARNABAS_UNCOMPILED": "1", "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    with tempfile.NamedTemporaryFile("w", prefix="barnabas-fuzz-", suffix=".sh") as script:
        command = [sys.executable, "-m", "tools.fuzz.engine", name]
        script.write(f'exec {shlex.join(command)} "$@"\n')
        script.flush()
        environment["BARNABAS_FUZZ_ENGINE"] = f"sh {script.name}"
        return subprocess.call([*command, *arguments], env=environment) == 0


def _compiled(name: str, folder: Path) -> bool:
    done = subprocess.call([sys.executable, "-m", "tools.fuzz", name, "--replay", str(folder)])
    if done:
        print(f"{name}: the compiled modules broke (exit {done})", file=sys.stderr)
    return done == 0


if __name__ == "__main__":
    sys.exit(main())
