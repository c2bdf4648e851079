"""Builds the Go, Node and Java programs of tests/interop in the user's cache; only the first build needs a network."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.peers import apache_kafka
from tests.support.cache import CACHES, locked

CACHE = CACHES / "interop"
SOURCES = Path(__file__).parent.parent / "interop"
BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


class CannotBuildError(pytest.skip.Exception):
    """A program cannot be had here, for a reason that is not its own; the test that wants it is skipped."""


def go_program(sources: Path = SOURCES / "go") -> Path:
    """The Go program in a directory. Raises `CannotBuildError`; RuntimeError with the compiler's words."""
    go = shutil.which("go")
    if go is None:
        raise CannotBuildError("Go is missing (https://go.dev/dl, 1.26 or later)")
    program = CACHE / f"go-{_digest(sources)}"
    with locked(CACHE):
        if not program.exists():
            _build(go, sources, program)
    return program


def go_tests(module: str, package: str, sources: Path = SOURCES / "go") -> Path:
    """The tests of a package of a module that a Go program needs, built from the module itself; raises likewise."""
    go = shutil.which("go")
    if go is None:
        raise CannotBuildError("Go is missing (https://go.dev/dl, 1.26 or later)")
    program = CACHE / f"go-tests-{_digest(sources)}-{module.replace('/', '-')}-{package.replace('/', '-')}.test"
    with locked(CACHE):
        if not program.exists():
            _run([go, "mod", "download"], sources)
            found = _run([go, "list", "-m", "-f", "{{.Dir}}", module], sources).stdout.strip()
            built = _run([go, "test", "-c", "-o", str(program), package], Path(found)) if found else None
            if built is None or built.returncode:
                why = "" if built is None else built.stderr[-500:]
                raise CannotBuildError(f"The tests of {module} could not be built: {why}")
    return program


def _build(go: str, sources: Path, program: Path) -> None:
    fetched = _run([go, "mod", "download"], sources)
    if fetched.returncode:
        raise CannotBuildError(f"Go could not fetch its modules: {fetched.stderr[-500:]}")
    unfinished = program.with_suffix(f".{os.getpid()}")
    built = _run([go, "build", "-o", str(unfinished), "."], sources)
    if built.returncode:
        raise RuntimeError(f"{sources} does not build: {built.stderr[-2000:]}")
    unfinished.rename(program)


def node_packages(sources: Path = SOURCES / "node") -> Path:
    """A directory whose node_modules has what the package.json in `sources` names. Raises `CannotBuildError`."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise CannotBuildError("Node and npm are missing (apt-get install nodejs npm)")
    folder = CACHE / f"{sources.name}-{_digest(sources, 'package*.json')}"
    with locked(folder):
        if not (folder / "complete").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(sources / name, folder)
            done = _run([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder)
            if done.returncode:
                raise CannotBuildError(f"npm could not install: {done.stderr[-500:]}")
            (folder / "complete").touch()
    return folder


def librdkafka_tests() -> Path:
    """librdkafka's own tests, built from the sources that a package for Node brings, in some minutes.

    Raises `CannotBuildError`; RuntimeError with the compiler's words.
    """
    if any(shutil.which(name) is None for name in ("g++", "make", "pkg-config")):
        raise CannotBuildError("A C++ compiler is missing (apt-get install g++ make pkg-config)")
    if _run(["pkg-config", "--exists", "libzstd", "zlib"], SOURCES).returncode:
        raise CannotBuildError("libzstd is missing (apt-get install libzstd-dev zlib1g-dev)")
    packages = node_packages(SOURCES / "librdkafka")
    sources = packages / "node_modules" / "@confluentinc" / "kafka-javascript" / "deps" / "librdkafka"
    program = sources / "tests" / "test-runner"
    with locked(packages):
        if not program.exists():
            for command in (
                ["bash", "configure", "--disable-ssl", "--disable-gssapi", "--disable-curl"],
                ["make", "-j2", "libs"],
                ["make", "-j2", "-C", "tests", "test-runner"],
            ):
                built = _run(command, sources, timeout=1500)
                if built.returncode:
                    raise RuntimeError(f"librdkafka does not build: {(built.stdout + built.stderr)[-2000:]}")
    return program


def java_class_path() -> str:
    """Apache Kafka's jars and the programs of tests/interop/java. Raises `CannotBuildError`."""
    _need_javac()
    return _compiled("java", apache_kafka.classpath())


def streams_class_path() -> str:
    """The jars of Kafka Streams and the program of tests/interop/java-streams. Raises `CannotBuildError`."""
    _need_javac()
    return _compiled("java-streams", f"{apache_kafka.streams_classpath()}:{apache_kafka.classpath()}")


def test_driver_class_path() -> str:
    """The jars of TopologyTestDriver and the program of tests/interop/java-streams-test-driver.

    Raises `CannotBuildError`.
    """
    _need_javac()
    return _compiled("java-streams-test-driver", apache_kafka.test_driver_classpath())


def _need_javac() -> None:
    missing = apache_kafka.why_not()
    if missing or shutil.which("javac") is None:
        raise CannotBuildError(missing or "javac is missing (apt-get install openjdk-17-jdk-headless)")


def _compiled(name: str, jars: str) -> str:
    classes = CACHE / f"{name}-{_digest(SOURCES / name, '**/*.java')}"
    with locked(CACHE):
        if not classes.exists():
            unfinished = classes.with_suffix(f".{os.getpid()}")
            sources = [str(path) for path in (SOURCES / name).rglob("*.java")]
            built = _run(["javac", "-cp", jars, "-d", str(unfinished), *sources], SOURCES)
            if built.returncode:
                raise RuntimeError(f"tests/interop/{name} does not compile: {built.stderr[-2000:]}")
            unfinished.rename(classes)
    return f"{jars}:{classes}"


def _run(command: list[str], folder: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)


def _digest(folder: Path, pattern: str = "*") -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.glob(pattern) if path.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
