"""Kafka's own PasswordEncoder of 3.9, in Java: makes the vectors of its secrets, and reads ours.

`python -m tests.peers.password_encoders` writes the vectors anew.
"""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterable
from itertools import product
from pathlib import Path

from tests.peers import jvm
from tests.peers.zookeeper import class_path

_PROGRAM = Path(__file__).parents[1] / "interop/java-3.9/PasswordEncoders.java"
VECTORS = Path(__file__).parents[1] / "vectors/data/password_encoder.json"
SECRETS = ("secret", "gr\u00fc\u00dfe \u20ac \U0001f511")
TEXTS = ("", "x", "fifteen bytes..", "sixteen bytes...", "p\u00e4sswort, mit: Kommas \U0001f511", "long" * 99)
KEY_FACTORIES = tuple(f"PBKDF2WithHmacSHA{number}" for number in (1, 224, 256, 384, 512))
CIPHERS = (*(f"AES/{mode}/PKCS5Padding" for mode in ("CBC", "CFB", "OFB")), "AES/GCM/NoPadding")
KEY_LENGTHS = (128, 192, 256)


def ask(lines: Iterable[str]) -> list[str]:
    """Give lines to the Java program, and return its answers."""
    command = jvm.java("-cp", class_path(), str(_PROGRAM))
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, encoding="utf-8", check=True)
    return done.stdout.splitlines()


def encoded(secret: str, key_factory: str, cipher: str, bits: int, text: str) -> str:
    """Return the line that has Java encode a text."""
    return f"encode {_base64(secret)} {key_factory} {cipher} {bits} 1024 {_base64(text)}"


def decoded(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return what Java decodes of pairs of a secret and what was encoded with it."""
    answers = ask(f"decode {_base64(secret)} {text}" for secret, text in pairs)
    return [b64decode(answer).decode() for answer in answers]


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def main() -> None:
    """Write the vectors: every kind of key and cipher with some text, and every text."""
    kinds = list(product(KEY_FACTORIES, CIPHERS, KEY_LENGTHS))
    cases = [(SECRETS[n % 2], *kind, TEXTS[n % len(TEXTS)]) for n, kind in enumerate(kinds)]
    rows = [
        {"secret": case[0], "text": case[-1], "encoded": answer}
        for case, answer in zip(cases, ask(encoded(*case) for case in cases), strict=True)
    ]
    VECTORS.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
