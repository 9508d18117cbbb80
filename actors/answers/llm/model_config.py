"""Where a language model is, and how long it may take for what."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cluster.errors import Invalid
from cluster.origin import is_loopback


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """An administrator's word about the provider."""

    url: str
    "Address of the interface, as `https://models.example.com/v1`."
    model: str
    key: str = field(default="", repr=False)
    may_be_internal: bool = False
    "Loopback, private and link-local addresses may be spoken to."
    connect_s: float = 3.0
    first_s: float = 12.0
    "From the request to the first piece of text."
    between_s: float = 6.0
    "From one piece of text to the next."
    total_s: float = 40.0
    most_tokens: int = 700
    most_bytes: int = 2 << 20
    "Bytes of a reply that are read."
    at_once: int = 8
    "Answers written at the same time by one process."

    @property
    def name(self) -> str:
        """Name the model and where it is, without anything secret."""
        return f"{self.model}@{urlsplit(self.url).hostname}"

    def validate(self) -> ModelConfig:
        """Check what can be checked without asking anybody.

        Errors:
            Invalid: no http address, a key that would travel in the clear, or no model
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise Invalid("KIOSK_LLM_URL is an address as https://models.example.com/v1")
        if parts.scheme == "http" and not (self.may_be_internal or is_loopback(parts.hostname)):
            raise Invalid("KIOSK_LLM_URL must be https: the key would travel in the clear")
        if not self.model.strip():
            raise Invalid("KIOSK_LLM_MODEL is missing")
        return self
