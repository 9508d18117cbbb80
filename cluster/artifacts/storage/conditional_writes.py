"""Writes that succeed only if no object has the name yet, for buckets whose server enforces them.

pyarrow has no conditional put, so this one request goes through `obstore`. S3 names it `If-None-Match: *`, Google
Cloud Storage `ifGenerationMatch=0`. A server may ignore the condition silently, so the first write is preceded by a
probe: two conditional writes of one name. If both succeed, the server does not enforce it, and the writers' lock is
needed.
"""

from __future__ import annotations

import configparser
import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from cluster import ids

_PROBE = ".kiosk-probe"


class ConditionalWriter(Protocol):
    """Creates objects that do not exist yet."""

    def create(self, path: str, data: bytes) -> None:
        """Create an object at a path below the root.

        Errors:
            FileExistsError: there is one already
            OSError: the server did not answer, or refused
        """

    def is_enforced(self) -> bool:
        """Return whether the server enforces the condition.

        Errors:
            OSError: the server did not answer
        """


class BucketWriter:
    """Conditional writes below a prefix of one bucket."""

    def __init__(self, store: Any, remove: Callable[[str], None]) -> None:
        self._store = store
        self._remove = remove
        "Removes the probe; `obstore` would ask for a deletion of many, which some servers do not have."
        self._enforced: bool | None = None

    def create(self, path: str, data: bytes) -> None:
        """Create an object; see `ConditionalWriter`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PreconditionError

        try:
            # Only a single request can be conditional; a multipart upload creates its object at the end.
            obstore.put(self._store, path, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError) as error:
            raise FileExistsError(errno.EEXIST, "the object exists", path) from error
        except NotSupportedError as error:
            raise OSError(errno.ENOTSUP, "the server has no conditional writes") from error
        except BaseError as error:
            # the whole text may hold the answer's body and the request's address
            raise OSError(errno.EIO, type(error).__name__) from error

    def is_enforced(self) -> bool:
        """Probe the server once; see `ConditionalWriter`."""
        if self._enforced is None:
            self._enforced = self._probe()
        return self._enforced

    def _probe(self) -> bool:
        path = f"{_PROBE}-{ids.new_request_id()}"
        try:
            self.create(path, b"first")
            self.create(path, b"second")
        except FileExistsError:
            return True
        except OSError as error:
            if error.errno == errno.ENOTSUP:
                return False
            raise
        finally:
            with contextlib.suppress(Exception):  # a forgotten probe is a few bytes
                self._remove(path)
        return False


def open_bucket_writer(
    scheme: str, bucket: str, prefix: str, options: Mapping[str, str], remove: Callable[[str], None]
) -> BucketWriter:
    """Return the writer of a bucket.

    `options` are those of the address; `remove` removes an object below the prefix.
    """
    from obstore.store import GCSStore, S3Store

    more: dict[str, Any] = {
        "prefix": prefix or None,
        # the artifact store repeats a request itself, and looks first whether the failed one arrived
        "retry_config": {"max_retries": 0},
        # `allow_http`: obstore refuses http otherwise, also where the bucket's address names it.
        "client_options": {"timeout": "60s", "connect_timeout": "5s", "allow_http": True},
    }
    if scheme == "gs":
        return BucketWriter(GCSStore(bucket, **more), remove)
    endpoint = options.get("endpoint_override", "")
    if endpoint:
        more["endpoint"] = endpoint if "://" in endpoint else f"{options.get('scheme', 'https')}://{endpoint}"
        # Servers at an address of their own mostly have no host name for each bucket.
        more["virtual_hosted_style_request"] = False
    if options.get("region"):
        more["region"] = options["region"]
    more.update(credentials_from_file(os.environ))
    return BucketWriter(S3Store(bucket, **more), remove)


def credentials_from_file(environment: Mapping[str, str]) -> dict[str, str]:
    """Return static credentials from the shared AWS file; empty when the environment has better ones, or none exist.

    `obstore` reads variables, web identities and instance metadata itself, but not this file.
    """
    better = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if any(environment.get(name) for name in better):
        return {}
    path = environment.get("AWS_SHARED_CREDENTIALS_FILE", "") or str(Path.home() / ".aws" / "credentials")
    # Raw, because a token may contain `%`, at which interpolation fails.
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, "utf-8")
        section = dict(parser[environment.get("AWS_PROFILE") or "default"])
    except (configparser.Error, KeyError, OSError, UnicodeDecodeError):
        return {}
    names = {
        "aws_access_key_id": "access_key_id",
        "aws_secret_access_key": "secret_access_key",
        "aws_session_token": "session_token",
    }
    return {ours: section[theirs] for theirs, ours in names.items() if section.get(theirs)}
