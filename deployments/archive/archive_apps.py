"""Which apps agents read: the default archive, and the apps with an address of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from cluster.records.apps import AppSettings
from cluster.records.archive.archive_terms import ArchiveTerms
from cluster.records.archive.named_archive import NamedArchive

_DEFAULT = AppSettings()


class ArchiveApps(Protocol):
    """Knows the archives of an installation: the keyring of a replica."""

    def default_archive_app(self, default: str) -> str:
        """Return the app of the default archive, or `default` before an administrator chose one."""
        ...

    def find_archive(self, app_id: str) -> NamedArchive | None:
        """Return the settings of a named archive; None if there is none."""
        ...

    def list_archives(self) -> Mapping[str, NamedArchive]:
        """Return the named archives by app."""
        ...

    def list_archive_terms(self) -> Mapping[str, Mapping[str, ArchiveTerms]]:
        """Return the terms that machines read, by app and name; apps without any are absent."""
        ...

    def settings_of(self, app_id: str) -> AppSettings:
        """Return the switches of an app; the default ones of an unknown app."""
        ...


class DefaultArchive:
    """An installation with the default archive alone."""

    def default_archive_app(self, default: str) -> str:
        return default

    def find_archive(self, app_id: str) -> NamedArchive | None:
        return None

    def list_archives(self) -> Mapping[str, NamedArchive]:
        return {}

    def list_archive_terms(self) -> Mapping[str, Mapping[str, ArchiveTerms]]:
        return {}

    def settings_of(self, app_id: str) -> AppSettings:
        return _DEFAULT
