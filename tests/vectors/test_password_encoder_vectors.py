"""Secrets as Apache Kafka 3.9's own PasswordEncoder has encrypted them (`python -m tests.peers.password_encoders`)."""

from __future__ import annotations

import json
import random
import shutil

import pytest

from barnabas.broker.zookeeper.password_encoder import EncoderSettings, PasswordEncoder, UndecodableSecretError
from tests.peers import zookeeper
from tests.peers.password_encoders import CIPHERS, KEY_FACTORIES, KEY_LENGTHS, SECRETS, TEXTS, VECTORS, decoded

_ROWS = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]


def _fields(encoded: str) -> dict[str, str]:
    return dict(part.split(":", 1) for part in encoded.split(","))


def _settings(encoded: str) -> EncoderSettings:
    fields = _fields(encoded)
    numbers = int(fields["keyLength"]), int(fields["iterations"])
    return EncoderSettings(fields["keyFactoryAlgorithm"], fields["cipherAlgorithm"], *numbers)


def test_what_java_has_encrypted_is_read() -> None:
    seen = set()
    for row in _ROWS:
        settings = _settings(row["encoded"])
        seen.add(settings[:3])
        reader = PasswordEncoder(row["secret"], EncoderSettings(), random.Random(1).randbytes)
        assert reader.decode(row["encoded"]) == row["text"]
    assert seen == {(*kind, bits) for kind in ((k, c) for k in KEY_FACTORIES for c in CIPHERS) for bits in KEY_LENGTHS}


def test_what_is_encrypted_here_has_the_fields_of_javas() -> None:
    for row in _ROWS[:12]:
        ours = PasswordEncoder(row["secret"], _settings(row["encoded"]), random.Random(2).randbytes).encode(row["text"])
        theirs, found = _fields(row["encoded"]), _fields(ours)
        assert found.keys() == theirs.keys()
        for name in found:
            if name in ("salt", "initializationVector", "encryptedPassword"):
                assert len(found[name]) == len(theirs[name]), name
            else:
                assert found[name] == theirs[name], name


def test_another_secret_and_damage_are_told_apart_from_the_text() -> None:
    for row in _ROWS[:24]:
        with pytest.raises(UndecodableSecretError):
            PasswordEncoder("another", EncoderSettings(), random.Random(1).randbytes).decode(row["encoded"])
        reader = PasswordEncoder(row["secret"], EncoderSettings(), random.Random(1).randbytes)
        length = _fields(row["encoded"])["passwordLength"]
        with pytest.raises(UndecodableSecretError):
            reader.decode(row["encoded"].replace(f"passwordLength:{length}", f"passwordLength:{int(length) + 1}"))


@pytest.mark.parametrize("cipher", ["DES/CBC/PKCS5Padding", "DESede/CBC/PKCS5Padding", "Blowfish"])
def test_what_a_broken_cipher_has_encrypted_is_refused_with_what_helps(cipher: str) -> None:
    fields = {**_fields(_ROWS[0]["encoded"]), "cipherAlgorithm": cipher, "keyLength": "64"}
    encoded = ",".join(f"{name}:{value}" for name, value in fields.items())
    reader = PasswordEncoder(_ROWS[0]["secret"], EncoderSettings(), random.Random(1).randbytes)
    with pytest.raises(UndecodableSecretError, match=r"refused: .* are broken.* encrypt anew with AES"):
        reader.decode(encoded)
    assert EncoderSettings(cipher=cipher, key_length=64).problem.startswith(f"cipher.algorithm={cipher} is refused")


def test_what_no_password_encoder_writes_is_told_so() -> None:
    reader = PasswordEncoder("secret", EncoderSettings(), random.Random(1).randbytes)
    encoded = reader.encode("text")
    for text in ("", "secret", encoded.replace("salt:", "sugar:"), encoded.replace("keyLength:128", "keyLength:x")):
        with pytest.raises(UndecodableSecretError, match="it is not what Kafka's PasswordEncoder writes"):
            reader.decode(text)
    with pytest.raises(UndecodableSecretError, match=r"cipher\.algorithm=Camellia/CBC/PKCS5Padding is not supported"):
        reader.decode(encoded.replace("AES/CBC", "Camellia/CBC"))


@pytest.mark.slow
def test_java_reads_what_is_encrypted_here() -> None:
    if missing := (zookeeper.JARS.why_not() or (None if shutil.which("java") else "Java is missing")):
        pytest.skip(missing)
    source, pairs, wanted = random.Random(3), [], []
    for key_factory in KEY_FACTORIES:
        for cipher in CIPHERS:
            for bits in KEY_LENGTHS:
                secret, text = SECRETS[len(pairs) % 2], TEXTS[len(pairs) % len(TEXTS)]
                settings = EncoderSettings(key_factory, cipher, bits, 1024)
                pairs.append((secret, PasswordEncoder(secret, settings, source.randbytes).encode(text)))
                wanted.append(text)
    assert decoded(pairs) == wanted
