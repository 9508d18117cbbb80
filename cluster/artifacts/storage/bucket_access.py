"""Addresses of an artifact store, and the file systems behind them (pyarrow.fs).

    /path, file:///path                                              a folder
    s3://bucket/prefix?endpoint_override=host:9000&scheme=http       S3 and servers that speak it
    gs://bucket/prefix                                               Google Cloud Storage

An address never holds credentials: they come from the usual variables, files and instance metadata.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow import fs

from cluster.addresses.artifacts_address import ArtifactsAddress, parse_artifacts_address
from cluster.artifacts.storage.conditional_writes import ConditionalWriter, open_bucket_writer
from cluster.artifacts.storage.file_system_kind import is_network_folder
from cluster.errors import Invalid

CONNECT_S = 5.0
REQUEST_S = 30.0
"Longest silence of a bucket within one request; a slow server answers after ten seconds or more."


@dataclass(frozen=True, slots=True)
class OpenedLocation:
    """A file system and the root of the artifact store in it."""

    files: Any
    root: str
    local: bool
    "A folder, on any file system."
    in_place: bool
    "Files may be mapped in place: the folder is on a disk of this machine."
    creator: ConditionalWriter | None = field(default=None, repr=False)


def open_location(address: str | Path, *, copy: str = "auto") -> OpenedLocation:
    """Open a folder or a bucket; `copy` is `auto`, `always` or `never`, for folders alone.

    Errors:
        Invalid: the address is not supported, or holds credentials
    """
    parsed = parse_artifacts_address(str(address))
    if parsed.scheme == "file":
        folder = Path(parsed.path).expanduser().resolve()
        copied = copy == "always" or (copy == "auto" and is_network_folder(folder))
        return OpenedLocation(fs.LocalFileSystem(), str(folder), local=True, in_place=not copied)
    options = bucket_options(parsed, os.environ)
    root = f"{parsed.bucket}/{parsed.path}".rstrip("/")
    try:
        files = _open_s3(options) if parsed.scheme == "s3" else _open_gcs()
        creator = open_bucket_writer(
            parsed.scheme,
            parsed.bucket,
            parsed.path,
            options,
            lambda path: files.delete_file(f"{root}/{path}"),
        )
    except Exception as error:  # the libraries' errors have no common class, and may quote credentials
        raise Invalid(f"the bucket {parsed.shown} can't be opened: {type(error).__name__}") from error
    return OpenedLocation(files, root, local=False, in_place=False, creator=creator)


def bucket_options(address: ArtifactsAddress, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options of an address, completed from the usual variables."""
    options = dict(address.options)
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    if endpoint and address.scheme == "s3" and "endpoint_override" not in options:
        parts = urllib.parse.urlsplit(endpoint)
        options["endpoint_override"] = parts.netloc
        options.setdefault("scheme", parts.scheme)
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
    if region:
        options.setdefault("region", region)
    return options


def _open_s3(options: Mapping[str, str]) -> Any:
    given = {name: options[name] for name in ("region", "scheme", "endpoint_override") if options.get(name)}
    return fs.S3FileSystem(
        **given,
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        # the artifact store repeats requests itself; repeated in both places, an outage would last for minutes
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
        allow_delayed_open=True,  # small files in one request instead of three
        force_virtual_addressing=options.get("force_virtual_addressing", "") == "true",
    )


def _open_gcs() -> Any:
    from datetime import timedelta

    return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=REQUEST_S))
