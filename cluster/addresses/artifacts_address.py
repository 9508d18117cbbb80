"""The address of the artifact store, taken apart and checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from cluster.errors import Invalid

OPTIONS = {
    "s3": ("endpoint_override", "force_virtual_addressing", "region", "scheme"),
    "gs": (),
}
"What may follow the `?` of an address; pyarrow's own names."

_WAYS = "a folder, file:///folder, s3://bucket/prefix or gs://bucket/prefix"


@dataclass(frozen=True, slots=True)
class ArtifactsAddress:
    """Where the artifact store is."""

    scheme: str
    "`file`, `s3` or `gs`."
    bucket: str
    "Empty for a folder."
    path: str
    "The folder; in a bucket the prefix, without slashes at its ends."
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """Return the address for messages and logs, without options."""
        return (
            self.path if self.scheme == "file" else f"{self.scheme}://{self.bucket}/{self.path}".rstrip("/")
        )


def parse_artifacts_address(text: str) -> ArtifactsAddress:
    """Take an address apart.

    Errors:
        Invalid: another scheme, credentials, an unknown option, or no bucket; the message does not quote the address
    """
    if "://" not in text:
        return ArtifactsAddress("file", "", text)
    try:
        parts = urlsplit(text)
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise Invalid(f"the address of the artifact store must be {_WAYS}") from error
    if parts.scheme == "file":
        if parts.netloc or parts.query or not parts.path.startswith("/"):
            raise Invalid("a folder for the artifact store is written file:///absolute/path")
        return ArtifactsAddress("file", "", unquote(parts.path))
    if parts.scheme not in OPTIONS:
        raise Invalid(f"the address of the artifact store must be {_WAYS}")
    if "@" in parts.netloc or parts.fragment:
        raise Invalid(
            "the address of the artifact store must not hold credentials: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or name a file in AWS_SHARED_CREDENTIALS_FILE"
        )
    allowed = OPTIONS[parts.scheme]
    if not given.keys() <= set(allowed):
        options = ", ".join(allowed) or "none"
        raise Invalid(
            f"unknown option in the address of the artifact store; {parts.scheme}:// has: {options}"
        )
    prefix = unquote(parts.path).strip("/")
    steps = prefix.split("/") if prefix else []
    if not parts.netloc or ":" in parts.netloc or any(step in ("", ".", "..") for step in steps):
        raise Invalid("the address of the artifact store names no bucket, as s3://bucket/prefix")
    return ArtifactsAddress(parts.scheme, parts.netloc, prefix, given)


def check_data_dir(text: str) -> None:
    """Refuse the address of a bucket as the data directory.

    Errors:
        Invalid: it is one; says which setting takes it
    """
    # A path that was normalized has only one of the two slashes left.
    scheme = text.partition(":")[0]
    if "://" in text or (scheme in OPTIONS and text.startswith(f"{scheme}:/")):
        raise Invalid(
            "KIOSK_DATA_DIR is a folder of this machine; for a bucket set KIOSK_ARTIFACTS_URL, as "
            "s3://bucket/prefix, and leave KIOSK_DATA_DIR a local folder"
        )
