"""Secrets as Kafka keeps them in ZooKeeper: encrypted with a key that is made of a secret of the brokers'.

The text is that of EncryptingPasswordEncoder of Apache Kafka 3.9: names and values with commas, which say how it was
encrypted, so that what was written under other settings can be read.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.config.config import Config

_KEY_FACTORY = "PBKDF2WithHmac"
_DIGESTS = {"SHA1": "sha1", "SHA224": "sha224", "SHA256": "sha256", "SHA384": "sha384", "SHA512": "sha512"}
_MODES = ("CBC", "CFB", "OFB", "GCM")
_KEY_BITS = (128, 192, 256)
#: Ciphers of Java with blocks of 64 bits (CVE-2016-2183), some of them with keys that can be tried out.
_BROKEN = ("Blowfish", "DES", "DESede", "RC2", "TripleDES")
_SALT_SIZE, _BLOCK_SIZE, _GCM_IV_SIZE, _GCM_TAG_BITS = 256, 16, 12, 128
#: That takes some seconds, in which a broker does nothing else.
_MOST_ITERATIONS = 10_000_000
_DEFAULT_KEY_FACTORY = f"{_KEY_FACTORY}SHA512"


class UndecodableSecretError(KafkaError):
    """A secret cannot be read: it was encrypted with another one, or is damaged."""


class EncoderSettings(NamedTuple):
    """How secrets are encrypted; `key_length` is in bits."""

    key_factory: str = _DEFAULT_KEY_FACTORY
    cipher: str = "AES/CBC/PKCS5Padding"
    key_length: int = 128
    iterations: int = 4096

    @classmethod
    def of(cls, config: Config) -> EncoderSettings:
        """Return what `password.encoder.*` says. Raises `ConfigError` for what is not supported."""
        found = cls(
            str(config["password.encoder.keyfactory.algorithm"] or _DEFAULT_KEY_FACTORY),
            config.get_str("password.encoder.cipher.algorithm"),
            config.get_int("password.encoder.key.length"),
            config.get_int("password.encoder.iterations"),
        )
        problem = found.problem
        if problem:
            raise ConfigError(f"password.encoder.{problem}")
        try:
            import cryptography  # noqa: F401
        except ImportError:
            raise ConfigError(
                "password.encoder.secret needs cryptography, which is not installed: pip install 'barnabas[tls]'"
            ) from None
        return found

    @property
    def problem(self) -> str:
        """Why this cannot be used, with the setting first; "" if it can."""
        if _digest(self.key_factory) is None:
            known = ", ".join(f"{_KEY_FACTORY}{name}" for name in _DIGESTS)
            return f"keyfactory.algorithm={self.key_factory} is not supported: it is one of {known}"
        if self.cipher.partition("/")[0] in _BROKEN:
            return (
                f"cipher.algorithm={self.cipher} is refused: ciphers with blocks of 64 bits are broken, and libraries "
                "drop them. Have Apache Kafka encrypt anew with AES (cipher.algorithm=AES/CBC/PKCS5Padding, key.length="
                "128, and the same password as password.encoder.secret and old.secret), or set what is secret anew"
            )
        if _mode(self.cipher) is None:
            known = ", ".join(f"AES/{mode}/{'NoPadding' if mode == 'GCM' else 'PKCS5Padding'}" for mode in _MODES)
            return f"cipher.algorithm={self.cipher} is not supported: it is one of {known}"
        if self.key_length not in _KEY_BITS:
            return f"key.length={self.key_length} is none of AES: it is 128, 192 or 256"
        if not 1 <= self.iterations <= _MOST_ITERATIONS:
            return f"iterations={self.iterations} is not supported: it is from 1 to {_MOST_ITERATIONS}"
        return ""


class PasswordEncoder:
    """Encrypts and decrypts texts with a secret. `random_bytes` gives salts and initialization vectors."""

    def __init__(self, secret: str, settings: EncoderSettings, random_bytes: Callable[[int], bytes]) -> None:
        self._secret = secret
        self._settings = settings
        self._random_bytes = random_bytes

    def encode(self, text: str) -> str:
        """Return a text encrypted, each time otherwise."""
        settings, mode = self._settings, _mode(self._settings.cipher)
        salt = self._random_bytes(_SALT_SIZE)
        vector = self._random_bytes(_GCM_IV_SIZE if mode == "GCM" else _BLOCK_SIZE)
        encryptor = _cipher(self._key(settings, salt), mode, vector).encryptor()
        encrypted = encryptor.update(_padded(text.encode(), mode)) + encryptor.finalize()
        fields: dict[str, object] = {
            "cipherAlgorithm": settings.cipher,
            "keyFactoryAlgorithm": settings.key_factory,
            "keyLength": settings.key_length,
            "iterations": settings.iterations,
            "salt": b64encode(salt).decode(),
            "initializationVector": b64encode(vector).decode(),
            "passwordLength": _java_length(text),
        }
        if mode == "GCM":
            encrypted += encryptor.tag
            fields["authenticationTagLength"] = _GCM_TAG_BITS
        fields["encryptedPassword"] = b64encode(encrypted).decode()
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, encoded: str) -> str:
        """Return what a text was before it was encrypted. Raises `UndecodableSecretError`."""
        try:
            fields = dict(part.split(":", 1) for part in encoded.split(","))
            settings = EncoderSettings(
                fields["keyFactoryAlgorithm"],
                fields["cipherAlgorithm"],
                int(fields["keyLength"]),
                int(fields["iterations"]),
            )
            salt, vector, encrypted = (
                b64decode(fields[name], validate=True) for name in ("salt", "initializationVector", "encryptedPassword")
            )
            length = int(fields["passwordLength"])
        except (KeyError, ValueError):
            raise UndecodableSecretError("it is not what Kafka's PasswordEncoder writes") from None
        if settings.problem:
            raise UndecodableSecretError(f"the setting with which it was encrypted, {settings.problem}")
        try:
            text = self._decrypted(settings, salt, vector, encrypted)
        except ValueError:
            text = None
        if text is None or _java_length(text) != length:
            raise UndecodableSecretError("it was encrypted with another secret, or is damaged")
        return text

    def _decrypted(self, settings: EncoderSettings, salt: bytes, vector: bytes, encrypted: bytes) -> str:
        """Return what was encrypted. Raises `ValueError` for what does not fit to the secret."""
        from cryptography.exceptions import InvalidTag

        mode = _mode(settings.cipher)
        tag = None
        if mode == "GCM":
            encrypted, tag = encrypted[: -_GCM_TAG_BITS // 8], encrypted[-_GCM_TAG_BITS // 8 :]
        decryptor = _cipher(self._key(settings, salt), mode, vector, tag).decryptor()
        try:
            return _unpadded(decryptor.update(encrypted) + decryptor.finalize(), mode).decode()
        except InvalidTag:
            raise ValueError from None

    def _key(self, settings: EncoderSettings, salt: bytes) -> bytes:
        digest = _digest(settings.key_factory)
        assert digest is not None, "settings are checked first"
        return hashlib.pbkdf2_hmac(digest, self._secret.encode(), salt, settings.iterations, settings.key_length // 8)


def _digest(key_factory: str) -> str | None:
    return _DIGESTS.get(key_factory.removeprefix(_KEY_FACTORY)) if key_factory.startswith(_KEY_FACTORY) else None


def _mode(cipher: str) -> str | None:
    """Return the mode of a transformation of AES; None for what is not supported."""
    algorithm, _, rest = cipher.partition("/")
    mode, _, padding = rest.partition("/")
    wanted = ("NoPadding", "PKCS5Padding") if mode == "GCM" else ("PKCS5Padding",)
    return mode if algorithm == "AES" and mode in _MODES and padding in wanted else None


def _cipher(key: bytes, mode: str | None, vector: bytes, tag: bytes | None = None) -> Any:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if mode == "CBC":
        return Cipher(algorithms.AES(key), modes.CBC(vector))
    if mode == "GCM":
        return Cipher(algorithms.AES(key), modes.GCM(vector, tag))
    try:
        from cryptography.hazmat.decrepit.ciphers.modes import CFB, OFB
    except ImportError:
        # Before they were moved there.
        from cryptography.hazmat.primitives.ciphers.modes import CFB, OFB
    return Cipher(algorithms.AES(key), (CFB if mode == "CFB" else OFB)(vector))


def _padded(data: bytes, mode: str | None) -> bytes:
    if mode == "GCM":
        return data
    missing = _BLOCK_SIZE - len(data) % _BLOCK_SIZE
    return data + bytes([missing]) * missing


def _unpadded(data: bytes, mode: str | None) -> bytes:
    if mode == "GCM":
        return data
    missing = data[-1] if data else 0
    if not 1 <= missing <= _BLOCK_SIZE or data[-missing:] != bytes([missing]) * missing:
        raise ValueError("the padding is damaged")
    return data[:-missing]


def _java_length(text: str) -> int:
    """Return the length of a text as Java counts it, in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
