"""An agent that signs its requests as Web Bot Auth says, and publishes its key."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deployments.archive.signatures.message_signatures import thumbprint


@dataclass
class SigningAgent:
    """An agent with a key of Ed25519."""

    address: str = "https://agent.example.com"
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def key_id(self) -> str:
        return thumbprint(self.key.public_key().public_bytes_raw())

    def directory(self) -> bytes:
        """Return the key set that the agent publishes."""
        x = base64.urlsafe_b64encode(self.key.public_key().public_bytes_raw()).rstrip(b"=").decode()
        return json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x, "use": "sig"}]}).encode()

    def sign(
        self,
        authority: str,
        now_s: int,
        *,
        life_s: int = 60,
        nonce: str = "",
        agent_field: str | None = None,
        components: Mapping[str, str] | None = None,
        **parameters: str,
    ) -> dict[str, str]:
        """Return the three headers; `parameters` replace those of the signature, an empty one is left out."""
        agent_field = f'sig1="{self.address}"' if agent_field is None else agent_field
        covered = {'"@authority"': authority, '"signature-agent";key="sig1"': f'"{self.address}"'}
        covered = covered if components is None else dict(components)
        given = {
            "created": str(now_s), "expires": str(now_s + life_s), "keyid": f'"{self.key_id}"', "alg": '"ed25519"',
            "nonce": f'"{nonce}"' if nonce else "", "tag": '"web-bot-auth"', **parameters,
        }  # fmt: skip
        listed = f"({' '.join(covered)})" + "".join(
            f";{name}={value}" for name, value in given.items() if value
        )
        lines = [f"{name}: {value}" for name, value in covered.items()]
        text = "\n".join([*lines, f'"@signature-params": {listed}'])
        signature = base64.b64encode(self.key.sign(text.encode())).decode()
        headers = {"signature-input": f"sig1={listed}", "signature": f"sig1=:{signature}:"}
        return headers | ({"signature-agent": agent_field} if agent_field else {})
