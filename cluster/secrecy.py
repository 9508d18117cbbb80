"""API keys as strings and how they rest: minting, recognising, hashing, sealing under the master key.

    ksk_dev_<32 characters of base 62>_<6 characters of base 62: CRC-32 of everything before>
    kpk_...                                                        the publishable form

The prefix and the checksum let a scanner tell a leaked key from noise without asking anybody. A key is looked
up by its SHA-256 and recoverable only with the master key, because `user_hash` and HS256 need it again.
Everything here is pure but the two functions that touch the master key's file.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import re
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from cluster.errors import Fault

KINDS = {"secret": "ksk", "publishable": "kpk"}
"Kind of key -> first word of the key."

ENVIRONMENTS = {"playground": "ply", "development": "dev", "production": "prd"}
"Environment -> second word of the key."

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BODY = 32
_CHECK = 6
_NONCE = 12
_FORM = re.compile(r"(ksk|kpk)_(ply|dev|prd)_([0-9A-Za-z]{32})_([0-9A-Za-z]{6})")
_KIND_OF = {word: kind for kind, word in KINDS.items()}
_ENVIRONMENT_OF = {word: name for name, word in ENVIRONMENTS.items()}

Randomness = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class KeyForm:
    """What a key's text says about itself."""

    kind: str
    "`secret` or `publishable`."
    environment: str
    "`playground`, `development` or `production`."


def mint_key(kind: str, environment: str, randomness: Randomness = secrets.token_bytes) -> str:
    """Make a new key of about 190 bits with prefix and checksum."""
    body = ""
    while len(body) < _BODY:
        # Bytes over 247 are thrown away: 248 is four times 62, so every character is equally likely.
        body += "".join(_ALPHABET[byte % 62] for byte in randomness(_BODY) if byte < 248)
    head = f"{KINDS[kind]}_{ENVIRONMENTS[environment]}_{body[:_BODY]}"
    return f"{head}_{_checksum(head)}"


def recognise_key(text: str) -> KeyForm | None:
    """Tell a well-formed key from anything else, without knowing whether it is in use."""
    form = _FORM.fullmatch(text)
    if form is None or not hmac.compare_digest(_checksum(text[: -_CHECK - 1]), form[4]):
        return None
    return KeyForm(_KIND_OF[form[1]], _ENVIRONMENT_OF[form[2]])


def key_sha256(key: str) -> str:
    """Hash a key for looking it up."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def key_hint(key: str) -> str:
    """Shorten a key to what people may see: its prefix and last four characters."""
    return f"{key[:8]}...{key[-4:]}"


def new_key_id(randomness: Randomness = secrets.token_bytes) -> str:
    """Name a key for logs and lists."""
    return "key-" + randomness(5).hex()


class Vault:
    """Seals keys under the master key with AES-256-GCM.

    The sealed text is bound to a name (the key's SHA-256), so that a ciphertext moved to another record does
    not open there.
    """

    def __init__(self, master: bytes, randomness: Randomness = secrets.token_bytes) -> None:
        self._cipher = AESGCM(master)
        self._master = master
        self._randomness = randomness

    def derive(self, purpose: str) -> bytes:
        """Make a key of 32 bytes for one purpose: the same on every replica and after every restart."""
        return HKDF(SHA256(), 32, salt=None, info=b"kiosk " + purpose.encode()).derive(self._master)

    def seal(self, plain: str, name: str) -> str:
        """Encrypt a text; the result is URL-safe base64."""
        nonce = self._randomness(_NONCE)
        sealed = self._cipher.encrypt(nonce, plain.encode(), name.encode())
        return base64.urlsafe_b64encode(nonce + sealed).decode()

    def open(self, sealed: str, name: str) -> str:
        """Decrypt what `seal` made for the same name.

        Errors:
            Fault: another master key, another name, or a damaged text
        """
        try:
            raw = base64.urlsafe_b64decode(sealed)
            return self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], name.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise Fault("a sealed key does not open under this master key") from error


class Signer:
    """Proves that an installation wrote something: HMAC-SHA-256 under a key derived from its master key.

    A key that must be loaded is loaded when something is signed or checked for the first time.
    """

    def __init__(self, key: bytes | Callable[[], bytes]) -> None:
        self._key = key

    def sign(self, place: str, data: bytes) -> str:
        """Compute the MAC in hex of bytes that stand at one place; elsewhere it does not hold.

        Errors:
            Fault: the key can't be loaded
        """
        if not isinstance(self._key, bytes):
            self._key = self._key()
        return hmac.new(self._key, place.encode() + b"\0" + data, hashlib.sha256).hexdigest()


def new_master_key(randomness: Randomness = secrets.token_bytes) -> str:
    """Make a master key: 32 bytes in URL-safe base64."""
    return key_text(randomness(32))


def key_text(key: bytes) -> str:
    """Write a key of 32 bytes, the master key or a derived one, as URL-safe base64; `parse_master_key` reads it."""
    return base64.urlsafe_b64encode(key).decode()


def parse_master_key(text: str) -> bytes:
    """Read a master key from its text.

    Errors:
        Fault: not 32 bytes in URL-safe base64
    """
    try:
        raw = base64.b64decode(text.strip(), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise Fault("the master key is not URL-safe base64") from error
    if len(raw) != 32:
        raise Fault("the master key is not 32 bytes long")
    return raw


def read_master_key(path: Path) -> bytes:
    """Read the master key of an installation from its file.

    Errors:
        Fault: the file is missing or holds something else
    """
    try:
        return parse_master_key(path.read_text("ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise Fault(f"the master key can't be read: {path.name}") from error


def create_master_key(path: Path) -> bytes:
    """Make the master key of an installation, readable by its owner only; keep one that is already there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(new_master_key() + "\n")
            file.flush()
            os.fsync(file.fileno())
        # A link fails when the name is taken: two starts at once agree on one key, and no reader ever sees
        # half of it.
        with contextlib.suppress(FileExistsError):
            os.link(scratch, path)
    finally:
        scratch.unlink()
    return read_master_key(path)


def _checksum(head: str) -> str:
    number = zlib.crc32(head.encode())
    digits = ""
    for _ in range(_CHECK):
        number, digit = divmod(number, 62)
        digits = _ALPHABET[digit] + digits
    return digits


def derive_token_key(secret: bytes) -> bytes:
    """Derive the key of reader tokens from a secret key: 64 hex digits, used as text like the secret key itself."""
    return hmac.digest(secret, b"kiosk reader token", "sha256").hex().encode()
