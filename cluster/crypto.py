"""API keys as texts and in storage: creating, parsing, hashing, encrypting under the master key.

    ksk_dev_<32 characters of base 62>_<6 characters of base 62: CRC-32 of everything before>
    kpk_...                                                        the publishable form

The prefix and the checksum let a scanner recognise a leaked key without a server. A key is looked
up by its SHA-256 and recoverable only with the master key, because `user_hash` and HS256 need it again.
Only `read_master_keys` and `create_master_key` touch a file.
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
from collections.abc import Callable, Sequence
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

MOST_MASTER_KEYS = 4
"Each key costs one more check of a forged signature."

Randomness = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The content of a key's text."""

    kind: str
    "`secret` or `publishable`."
    environment: str
    "`playground`, `development` or `production`."


def mint_key(kind: str, environment: str, randomness: Randomness = secrets.token_bytes) -> str:
    """Return a new key of about 190 bits with prefix and checksum."""
    head = f"{KINDS[kind]}_{ENVIRONMENTS[environment]}_{_random_text(randomness)}"
    return f"{head}_{_checksum(head)}"


def mint_token(prefix: str, randomness: Randomness = secrets.token_bytes) -> str:
    """Return a new personal token of about 190 bits: prefix, random characters, checksum."""
    head = prefix + _random_text(randomness)
    return f"{head}_{_checksum(head)}"


def is_token(text: str, prefix: str) -> bool:
    """Return whether a text has the form of a personal token; the token need not be in use."""
    head, _, check = text.rpartition("_")
    form = re.fullmatch(r"[0-9A-Za-z]{32}", head.removeprefix(prefix)) if head.startswith(prefix) else None
    return form is not None and hmac.compare_digest(_checksum(head).encode(), check.encode())


def recognise_key(text: str) -> KeyForm | None:
    """Return the form of a well-formed key, else None; the key need not be in use."""
    form = _FORM.fullmatch(text)
    if form is None or not hmac.compare_digest(_checksum(text[: -_CHECK - 1]), form[4]):
        return None
    return KeyForm(_KIND_OF[form[1]], _ENVIRONMENT_OF[form[2]])


def key_sha256(key: str) -> str:
    """Return the hash by which a key is looked up."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def key_hint(key: str) -> str:
    """Return the visible part of a key: its prefix and last four characters."""
    return f"{key[:8]}...{key[-4:]}"


def new_key_id(randomness: Randomness = secrets.token_bytes) -> str:
    """Return a new id of a key for logs and lists."""
    return "key-" + randomness(5).hex()


class Vault:
    """Encrypts keys under the master key with AES-256-GCM.

    The encrypted text is bound to a name (the key's SHA-256), so that a ciphertext moved to another record can't
    be decrypted there. With previous master keys, what they encrypted opens as well; nothing new is encrypted
    with them.
    """

    def __init__(
        self,
        master: bytes,
        randomness: Randomness = secrets.token_bytes,
        *,
        previous: Sequence[bytes] = (),
    ) -> None:
        self._masters = (master, *previous)
        self._ciphers = tuple(map(AESGCM, self._masters))
        self._randomness = randomness

    @property
    def has_previous(self) -> bool:
        """Return whether there are previous master keys."""
        return len(self._masters) > 1

    def without_previous(self) -> Vault:
        """Return a vault that knows the current master key only."""
        return Vault(self._masters[0], self._randomness)

    def derive(self, purpose: str) -> bytes:
        """Return a key of 32 bytes for one purpose: the same on every replica and after every restart."""
        return self.derive_all(purpose)[0]

    def derive_all(self, purpose: str) -> tuple[bytes, ...]:
        """Return the keys for one purpose of all master keys, that of the current one first."""
        info = b"kiosk " + purpose.encode()
        return tuple(HKDF(SHA256(), 32, salt=None, info=info).derive(master) for master in self._masters)

    def seal(self, plain: str, name: str) -> str:
        """Return a text encrypted under the current master key, as URL-safe base64."""
        nonce = self._randomness(_NONCE)
        sealed = self._ciphers[0].encrypt(nonce, plain.encode(), name.encode())
        return base64.urlsafe_b64encode(nonce + sealed).decode()

    def open(self, sealed: str, name: str) -> str:
        """Return the text that `seal` encrypted for the same name, under any of the master keys.

        Errors:
            Fault: another master key, another name, or a damaged text
        """
        for cipher in self._ciphers:
            try:
                raw = base64.urlsafe_b64decode(sealed)
                return cipher.decrypt(raw[:_NONCE], raw[_NONCE:], name.encode()).decode()
            except (InvalidTag, ValueError):
                continue
        raise Fault("a sealed key does not open under this master key")


class Signer:
    """Authenticates data of an installation: HMAC-SHA-256 under a key derived from its master key.

    It signs with the first key and accepts what any of its keys signed. Keys that must be loaded are loaded at the
    first signature or check.
    """

    def __init__(self, keys: bytes | tuple[bytes, ...] | Callable[[], tuple[bytes, ...]]) -> None:
        self._keys = (keys,) if isinstance(keys, bytes) else keys

    def sign(self, place: str, data: bytes) -> str:
        """Return the MAC in hex of bytes at one place; it is invalid for other places."""
        return self._sign(self._load()[0], place, data)

    def verify(self, place: str, data: bytes, proof: bytes) -> bool:
        """Return whether a MAC of `sign` holds for bytes at one place."""
        matches = [hmac.compare_digest(self._sign(key, place, data).encode(), proof) for key in self._load()]
        return any(matches)

    def _load(self) -> tuple[bytes, ...]:
        if not isinstance(self._keys, tuple):
            self._keys = self._keys()
        return self._keys

    @staticmethod
    def _sign(key: bytes, place: str, data: bytes) -> str:
        return hmac.new(key, place.encode() + b"\0" + data, hashlib.sha256).hexdigest()


def new_master_key(randomness: Randomness = secrets.token_bytes) -> str:
    """Return a new master key: 32 bytes in URL-safe base64."""
    return key_text(randomness(32))


def key_text(key: bytes) -> str:
    """Return a key of 32 bytes, the master key or a derived one, as URL-safe base64 for `parse_master_key`."""
    return base64.urlsafe_b64encode(key).decode()


def parse_master_key(text: str) -> bytes:
    """Return the bytes of a master key's text.

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


def parse_master_keys(text: str) -> tuple[bytes, ...]:
    """Return the keys of a text with white space between them: the current one first, then previous ones.

    Errors:
        Fault: a key is invalid, or there are none or too many
    """
    keys = tuple(dict.fromkeys(map(parse_master_key, text.split() or [text])))
    if len(keys) > MOST_MASTER_KEYS:
        raise Fault(f"there are {len(keys)} master keys; at most {MOST_MASTER_KEYS} can be in use")
    return keys


def read_master_keys(path: Path) -> tuple[bytes, ...]:
    """Return the master keys of an installation from its file, the current one first.

    Errors:
        Fault: the file is missing or contains something else
    """
    try:
        return parse_master_keys(path.read_text("ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise Fault(f"the master key can't be read: {path.name}") from error


def create_master_key(path: Path) -> tuple[bytes, ...]:
    """Return the master keys of an installation; create their file, readable by its owner only, if absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(new_master_key() + "\n")
            file.flush()
            os.fsync(file.fileno())
        # A link fails when the name exists: concurrent starts agree on one key, and no process ever reads
        # half of it.
        with contextlib.suppress(FileExistsError):
            os.link(scratch, path)
    finally:
        scratch.unlink()
    return read_master_keys(path)


def _random_text(randomness: Randomness) -> str:
    body = ""
    while len(body) < _BODY:
        # Bytes over 247 are discarded: 248 is four times 62, so every character is equally likely.
        body += "".join(_ALPHABET[byte % 62] for byte in randomness(_BODY) if byte < 248)
    return body[:_BODY]


def _checksum(head: str) -> str:
    number = zlib.crc32(head.encode())
    digits = ""
    for _ in range(_CHECK):
        number, digit = divmod(number, 62)
        digits = _ALPHABET[digit] + digits
    return digits


def derive_token_key(secret: bytes) -> bytes:
    """Return the key of user tokens, derived from a secret key: 64 hex digits, used as text like the secret key."""
    return hmac.digest(secret, b"kiosk reader token", "sha256").hex().encode()
