"""Pythons that this machine does not have: those of other releases of Debian and Ubuntu, each release in a folder.

debootstrap makes the folder once (~/.cache/barnabas), and `chroot` runs programs in it, so both need root. No release
has a Python without its lock: it is built there from the source of the release's own, in some minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.cache import CACHES, locked


class Release(NamedTuple):
    """A release; `keys` is what signs it, in the folder of Debian's trixie."""

    name: str
    mirror: str
    keys: str | None = None

    @property
    def cache(self) -> Path:
        """Where it is, or will be."""
        return CACHES / f"release-{self.name}"


TRIXIE = Release("trixie", "http://deb.debian.org/debian")
UBUNTU, UBUNTU_KEYS = "http://archive.ubuntu.com/ubuntu", "usr/share/keyrings/ubuntu-archive-keyring.gpg"
NOBLE, RESOLUTE = (Release(name, UBUNTU, UBUNTU_KEYS) for name in ("noble", "resolute"))
#: The release that has each Python; the one whose name ends with t has no interpreter lock.
PYTHONS = {"3.12": NOBLE, "3.13": TRIXIE, "3.14": RESOLUTE, "3.14t": RESOLUTE}
TO_BUILD = ("gcc", "libc6-dev", "make")
OF_PYTHON = ("libbz2-dev", "libffi-dev", "liblzma-dev", "libsqlite3-dev", "libssl-dev", "xz-utils", "zlib1g-dev")
BUILD = """
set -e
cd /tmp && rm -rf built && mkdir built && cd built
apt-get source -q --tar-only python{version} && tar xf python{version}_*.orig.tar.* && cd [Pp]ython-*/
./configure -q --disable-gil --with-ensurepip=install && make -s -j2 && make -s altinstall
"""


def root_with(python: str) -> tuple[Path, str]:
    """The root directory of the release that has this Python, and the Python's path there."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("needs root and debootstrap: apt-get install debootstrap")
    root = _root(PYTHONS[python])
    version, has_lock = python.removesuffix("t"), not python.endswith("t")
    program = f"/usr/bin/python{python}" if has_lock else f"/usr/local/bin/python{python}"
    if not (root / program[1:]).exists():
        packages = (f"python{version}-dev", f"python{version}-venv") if has_lock else OF_PYTHON
        inside(root, "apt-get", "install", "-y", "-q", *packages)
        if not has_lock:
            inside(root, "bash", "-c", BUILD.format(version=version), timeout=3600)
    return root, program


def inside(root: Path, *command: str, timeout: float = 1800) -> str:
    """Run a program with `root` as its root directory, and return what it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BARNABAS", "LD_"))}
    kept |= {"HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
    kept["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    done = subprocess.run(
        ["chroot", str(root), *command], env=kept, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-3000:]} {done.stderr[-2000:]}"
    return done.stdout


def _root(release: Release) -> Path:
    """The release's root directory; the first call takes some minutes."""
    options = []
    if release.keys is not None:
        keys = _root(TRIXIE) / release.keys
        if not keys.exists():
            inside(_root(TRIXIE), "apt-get", "install", "-y", "-q", "ubuntu-keyring")
        options = [f"--keyring={keys}", "--components=main,universe"]
    root = release.cache / "root"
    with locked(release.cache):
        if not (release.cache / "complete").exists():
            shutil.rmtree(root, ignore_errors=True)
            _make(root, release, options)
            (release.cache / "complete").touch()
    return root


def _make(root: Path, release: Release, options: list[str]) -> None:
    # dpkg syncs each file of each package otherwise; a folder that a crash leaves half done is made anew.
    quick = ["eatmydata"] if shutil.which("eatmydata") else []
    # What the script of another release does holds for Ubuntu's since 2007.
    script = ["/usr/share/debootstrap/scripts/gutsy"] if release.keys else []
    packages = f"--include=ca-certificates,{','.join(TO_BUILD)}"
    command = [*quick, "debootstrap", "--variant=minbase", packages, *options, release.name, str(root), release.mirror]
    made = subprocess.run([*command, *script], capture_output=True, text=True, timeout=3600, check=False)
    assert made.returncode == 0, f"debootstrap {release.name}: {made.stdout[-2000:]} {made.stderr[-500:]}"
    sources = root / "etc/apt/sources.list"
    binary = sources.read_text()
    sources.write_text(binary + binary.replace("deb ", "deb-src ", 1))
    inside(root, "apt-get", "update", "-q")
    # Machines behind a proxy of their own have its certificate and its address there.
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        if (Path("/") / name).exists():
            shutil.copyfile(Path("/") / name, root / name)
