"""The address of a language model, and its time limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cluster.errors import Invalid
from cluster.origin import is_loopback


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """An administrator's settings of the provider."""

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
    "Maximal bytes of a reply."
    at_once: int = 8
    "Maximal number of answers that one process writes at the same time."

    @property
    def name(self) -> str:
        """Return the name of the model and its address, without any secret."""
        return f"{self.model}@{urlsplit(self.url).hostname}"

    def validate(self) -> ModelConfig:
        """Check the settings without a connection.

        Errors:
            Invalid: no http address, a key that would travel in plain text, or no model
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise Invalid("KIOSK_LLM_URL is an address as https://models.example.com/v1")
        if parts.scheme == "http" and not (self.may_be_internal or is_loopback(parts.hostname)):
            raise Invalid("KIOSK_LLM_URL must be https: the key would travel in the clear")
        if not self.model.strip():
            raise Invalid("KIOSK_LLM_MODEL is missing")
        return self
