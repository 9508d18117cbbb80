"""Signatures of HTTP requests as agents make them: read them, rebuild what was signed, and verify it by Ed25519.

The signature of an agent has the tag `web-bot-auth`. It covers the host, and `Signature-Agent`, which says where the
keys of the agent are. Signatures with other tags are nobody's business here.

Source: RFC 9421 sections 2, 3.2 and 3.3.6; draft-ietf-webbotauth-httpsig-protocol-00 and 01
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from deployments.archive.signatures.structured_fields import (
    InnerList,
    Item,
    Token,
    parse_dictionary,
    parse_item,
)

TAG = "web-bot-auth"
ALGORITHM = "ed25519"
LONGEST_FIELD = 8_192
"Bytes of a field that is read; a signature in a longer one is not valid."
DIRECTORY_PATH = "/.well-known/http-message-signatures-directory"

_AGENT = "signature-agent"
_PLACES = ("@authority", "@target-uri")
_BARE_ADDRESS = re.compile(r"https://[!-~]+")
"An address without quotation marks, as a well-known crawler sends it."


class UnusableSignature(Exception):
    """A signature that is not valid, whatever keys its agent has; the text says why."""


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """What a signature may cover of a request. All texts are as they came, except for the origin, which is ours."""

    method: str
    origin: str
    "That of the configuration: what a client writes as host proves nothing."
    path: str
    query: str
    "Without `?`; empty if there is none."
    header: Callable[[bytes], bytes | None]
    "Returns a header by its name in lower case, several joined by a comma and a blank; None if it is absent."

    def field(self, name: str) -> str | None:
        """Return a header as text; None if it is absent.

        Errors:
            UnusableSignature: it is too long, or no ASCII
        """
        value = self.header(name.encode("latin-1", "replace"))
        if value is None:
            return None
        if len(value) > LONGEST_FIELD:
            raise UnusableSignature(f"{name} is too long")
        try:
            return value.decode("ascii").strip(" \t")
        except UnicodeDecodeError as error:
            raise UnusableSignature(f"{name} is no ASCII") from error


@dataclass(frozen=True, slots=True)
class AgentSignature:
    """The signature of an agent, not yet verified."""

    key_id: str
    created: int
    expires: int
    nonce: str
    agent: str
    "Address that `Signature-Agent` names; empty if the request has no such header."
    signed: bytes
    "What the agent signed."
    signature: bytes

    def is_signed_by(self, public_key: bytes) -> bool:
        """Return whether a key made the signature. Cost: below 300 microseconds."""
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(self.signature, self.signed)
        except (InvalidSignature, ValueError):
            return False
        return True


def read_signature(request: SignedRequest) -> AgentSignature | None:
    """Return the first signature of an agent; None if the request has none.

    Errors:
        UnusableSignature: the fields can't be read, or the signature does not cover what it must
    """
    given = request.field("signature-input")
    signatures = request.field("signature")
    if given is None:
        return None
    try:
        inputs = parse_dictionary(given)
        label = next((label for label, member in inputs.items() if _tag_of(member) == TAG), None)
        if label is None:
            return None
        signature = parse_dictionary(signatures or "").get(label)
        return _read(request, inputs[label], signature)
    except ValueError as error:
        raise UnusableSignature(f"a field of the signature can't be read: {error}") from error


def build_signed_text(request: SignedRequest, covered: InnerList) -> bytes:
    """Return what a signer signs: a line for each covered component, and one for the list with its parameters.

    Errors:
        UnusableSignature: a component is absent, unknown, or named twice
        ValueError: a header is no dictionary
    """
    lines: dict[str, str] = {}
    for item in covered.items:
        identifier = item.serialize()
        if not isinstance(item.value, str) or isinstance(item.value, Token) or identifier in lines:
            raise UnusableSignature("a component is no name, or covered twice")
        lines[identifier] = _find_component(request, item)
    text = "".join(f"{identifier}: {value}\n" for identifier, value in lines.items())
    # This line is the last one and has no line end (RFC 9421, 2.5).
    return f'{text}"@signature-params": {covered.serialize()}'.encode()


def thumbprint(public_key: bytes) -> str:
    """Return the id of a key of Ed25519: its thumbprint. Source: RFC 8037, appendix A.3."""
    x = base64.urlsafe_b64encode(public_key).rstrip(b"=").decode()
    # Required members only, in the order of the alphabet, without blanks (RFC 7638, 3.2).
    digest = hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def decode_key(x: object) -> bytes | None:
    """Return the 32 bytes of a public key from base64url; None for other values."""
    if not isinstance(x, str) or len(x) != 43:
        return None
    try:
        return base64.b64decode(x + "=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _tag_of(member: Item | InnerList) -> object:
    return member.parameters.get("tag") if isinstance(member, InnerList) else None


def _read(
    request: SignedRequest, covered: Item | InnerList, signature: Item | InnerList | None
) -> AgentSignature:
    if not isinstance(covered, InnerList) or not isinstance(signature, Item):
        raise UnusableSignature("the signature is missing")
    given = covered.parameters
    key_id = given.get("keyid")
    created = given.get("created")
    expires = given.get("expires")
    nonce = given.get("nonce", "")
    algorithm = given.get("alg", ALGORITHM)
    # `type`, because a boolean of the field is an `int` in Python.
    if type(created) is not int or type(expires) is not int or not isinstance(key_id, str):
        raise UnusableSignature("created, expires or keyid is missing")
    if algorithm != ALGORITHM or not isinstance(signature.value, bytes) or not isinstance(nonce, str):
        raise UnusableSignature("the signature is not one of Ed25519")
    # Without the host, a signature for another server could be replayed here.
    if not any(item.value in _PLACES and not item.parameters for item in covered.items):
        raise UnusableSignature("the host is not covered")
    agent = _read_agent(request, covered)
    return AgentSignature(
        key_id, created, expires, nonce, agent, build_signed_text(request, covered), signature.value
    )


def _read_agent(request: SignedRequest, covered: InnerList) -> str:
    """Return the address of the agent, which the signature must cover; empty if the request names none."""
    field = request.field(_AGENT)
    if field is None:
        return ""
    item = next((item for item in covered.items if item.value == _AGENT), None)
    if item is None:
        raise UnusableSignature("Signature-Agent is not covered")
    if field.startswith('"'):
        address: object = parse_item(field).value
    elif _BARE_ADDRESS.fullmatch(field):
        address = field
    else:
        members = parse_dictionary(field)
        key = item.parameters.get("key") or (next(iter(members)) if len(members) == 1 else "")
        member = members.get(str(key))
        address = member.value if isinstance(member, Item) else None
    if not isinstance(address, str):
        raise UnusableSignature("Signature-Agent names no address")
    return address


def _find_component(request: SignedRequest, item: Item) -> str:
    name = str(item.value)
    if not name.startswith("@"):
        return _find_field(request, name, item)
    scheme, _, authority = request.origin.partition("://")
    query = f"?{request.query}" if request.query else ""
    derived = {
        "@method": request.method,
        "@authority": authority.lower(),
        "@scheme": scheme,
        "@path": request.path or "/",
        # An absent query counts as an empty one (RFC 9421, 2.2.7).
        "@query": query or "?",
        "@target-uri": request.origin + request.path + query,
        "@request-target": request.path + query,
    }
    if name not in derived or item.parameters:
        raise UnusableSignature("a component is unknown")
    return derived[name]


def _find_field(request: SignedRequest, name: str, item: Item) -> str:
    value = request.field(name)
    # Signatures name headers in lower case (RFC 9421, 2.1).
    if value is None or name != name.lower():
        raise UnusableSignature("a covered header is absent")
    if not item.parameters:
        return value
    key = item.parameters.get("key")
    if item.parameters.keys() != {"key"} or not isinstance(key, str):
        raise UnusableSignature("a component is unknown")
    member = parse_dictionary(value).get(key)
    if member is None:
        raise UnusableSignature("a covered member is absent")
    return member.serialize()
