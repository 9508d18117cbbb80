"""Code shipped with one run: `kiosk train --working-dir DIR` packs a folder, and the run's worker imports from it.

    <data_dir>/code/<digest>.zip      mode 600, written by the process that creates the run

The run record has only the digest. So a write to Redis or the artifact store can only select code that an
administrator stored. It can only select classes that the installation allows (`kiosk learners allow`). Serving
processes never import it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import io
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from cluster.errors import Fault, Invalid

MOST_BYTES = 32 << 20
"Maximum size of all files, unpacked."
MOST_FILES = 2_000

SUFFIXES = frozenset((".py", ".toml", ".json", ".txt", ".csv", ".tsv", ".npy", ".npz", ".parquet", ".arrow"))
"Suffixes of files that are shipped: Python and plain data."

IGNORE_FILES = (".gitignore", ".rayignore", ".kioskignore")

_KEPT = 10
"Number of newest packages that are kept."
_WORDS = "secrets?|credentials?|passwords?|passwd|tokens?|private[._-]?keys?|api[._-]?keys?|env"
_SECRET = re.compile(rf"(^|[._-])({_WORDS})([._-]|$)|^id_(rsa|dsa|ecdsa|ed25519)", re.IGNORECASE)
"Names of files that are never shipped; `tokenizer.py` is allowed."
_NEVER = frozenset(("__pycache__", "node_modules", "venv", "site-packages"))
_DIGEST = re.compile(r"[0-9a-f]{64}")
# The earliest date of the format, for every file: equal contents give equal bytes and one digest.
_DATE = (1980, 1, 1, 0, 0, 0)


def code_path(data_dir: Path) -> Path:
    """Return the folder of the packages."""
    return data_dir / "code"


def pack_and_store(folder: Path, recipe: Mapping[str, Any], data_dir: Path, *, promote: bool = False) -> str:
    """Pack a folder for a run of a recipe into the data directory; return its digest.

    Errors:
        Invalid: the folder can't be shipped or lacks a class of the recipe, or `promote` is set
    """
    if promote:
        raise Invalid(
            "code of --working-dir is there for the training only, and the processes that serve can't import it: "
            "leave out --promote and look at the figures first; to serve, install the code into the environment of "
            "`kiosk up`, restart that, and train without --working-dir"
        )
    package = pack_folder(folder)
    check_package(package, recipe)
    return store_package(code_path(data_dir), package)


def pack_folder(folder: Path) -> bytes:
    """Return a package of the files that a training may import; equal files give equal bytes.

    Hidden files, files with names of secrets, and files that ignore files match are left out.

    Errors:
        Invalid: the path is no folder, or the folder has no Python file or is too large
    """
    if not folder.is_dir():
        raise Invalid(f"--working-dir {folder} is no folder")
    out = io.BytesIO()
    size = 0
    count = 0
    has_python = False
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for path in _files(folder, folder, ()):
            data = path.read_bytes()
            size = size + len(data)
            count = count + 1
            has_python = has_python or path.suffix == ".py"
            # Checked while packing, so that a folder of gigabytes is not read to its end.
            if size > MOST_BYTES or count > MOST_FILES:
                # One date for all entries: equal files give equal bytes.
                raise Invalid(
                    f"--working-dir {folder} holds more than {MOST_BYTES >> 20} MB or {MOST_FILES:,} files; name a "
                    "folder with the learner's own files, or list the others in a .kioskignore beside them"
                )
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, data)
    if not has_python:
        raise Invalid(f"--working-dir {folder} holds no Python file that may be shipped")
    return out.getvalue()


def store_package(code_dir: Path, package: bytes) -> str:
    """Write a package into the folder of the installation and delete old ones; return its digest."""
    code_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = hashlib.sha256(package).hexdigest()
    path = code_dir / f"{digest}.zip"
    part = code_dir / f".{digest}.{os.getpid()}"
    # The mode comes with the creation: a later `chmod` would leave a moment in which others can read it.
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(package)
    part.replace(path)
    newest = sorted(code_dir.glob("*.zip"), key=lambda archive: -archive.stat().st_mtime)
    for old in newest[_KEPT:]:
        old.unlink(missing_ok=True)
    return digest


def read_package(code_dir: Path, digest: str) -> bytes:
    """Return a package after a check of its digest.

    Errors:
        Invalid: the package is not on this machine
        Fault: the content does not match the digest
    """
    # The digest becomes part of a path, and comes from a record in Redis.
    if not _DIGEST.fullmatch(digest):
        raise Fault("the run names no digest of shipped code")
    try:
        package = (code_dir / f"{digest}.zip").read_bytes()
    except FileNotFoundError:
        raise Invalid(
            f"the code this run was ordered with is not on this machine ({digest[:12]}); order it again with "
            "--working-dir on the machine of the installation"
        ) from None
    # Whoever writes this file runs code in the trainer, so its name alone is not trusted.
    if hashlib.sha256(package).hexdigest() != digest:
        raise Fault(f"shipped code {digest[:12]} was changed; order the run again with --working-dir")
    return package


@contextlib.contextmanager
def import_from_package(code_dir: Path, digest: str) -> Iterator[None]:
    """Make a package importable in this process; without a digest, do nothing.

    Errors:
        Invalid, Fault: the package is missing, or does not match the digest
    """
    if not digest:
        yield
        return
    package = read_package(code_dir, digest)
    folder = tempfile.mkdtemp(prefix="kiosk-code-")
    try:
        with zipfile.ZipFile(io.BytesIO(package)) as opened:
            # Into a new folder; `extractall` itself drops absolute paths and "..".
            opened.extractall(folder)
        sys.path.insert(0, folder)
        # The import system caches the contents of folders, and this one is new.
        importlib.invalidate_caches()
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
        for name in [name for name, module in sys.modules.items() if _is_from(module, folder)]:
            # The next run of this process may ship other code under the same module names.
            del sys.modules[name]
        shutil.rmtree(folder, ignore_errors=True)


def check_package(package: bytes, recipe: Mapping[str, Any]) -> None:
    """Check that a package has the custom classes of a recipe that are not installed.

    Errors:
        Invalid: the recipe has no custom class, or one that is neither shipped nor installed
    """
    named = [str(part.get("learner", "")) for part in recipe.get("parts", {}).values()]
    classes = [learner for learner in named if ":" in learner]
    if not classes:
        raise Invalid(
            "the recipe names no learner class of yours (package.module:Class): nothing is to be shipped"
        )
    with zipfile.ZipFile(io.BytesIO(package)) as opened:
        shipped = {name.partition("/")[0].removesuffix(".py") for name in opened.namelist()}
    for learner in classes:
        # Of the top-level module only: for a deeper name, `find_spec` imports the modules above it.
        top = learner.partition(":")[0].partition(".")[0]
        if top not in shipped and importlib.util.find_spec(top) is None:
            raise Invalid(
                f"learner {learner} is neither in --working-dir nor installed: there is no module {top}"
            )


def _files(folder: Path, root: Path, ignored: tuple[tuple[Path, str], ...]) -> Iterator[Path]:
    """Yield the files that may be shipped, sorted by name."""
    ignored += tuple((folder, pattern) for name in IGNORE_FILES for pattern in _patterns(folder / name))
    for path in sorted(folder.iterdir()):
        name = path.name
        # A link may lead out of the folder, to files that nobody meant to ship.
        if path.is_symlink() or name.startswith(".") or name in _NEVER or _SECRET.search(name):
            continue
        if any(_is_ignored(path, above, pattern) for above, pattern in ignored):
            continue
        if path.is_dir():
            yield from _files(path, root, ignored)
        elif path.is_file() and path.suffix in SUFFIXES:
            yield path


def _patterns(path: Path) -> list[str]:
    """Return the patterns of an ignore file; exceptions (`!`) are dropped, so that more files are ignored."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        return []
    return [line.strip() for line in lines if line.strip() and not line.startswith(("#", "!"))]


def _is_ignored(path: Path, above: Path, pattern: str) -> bool:
    """Return true if a path matches a pattern of an ignore file in a folder above it."""
    if pattern.endswith("/") and not path.is_dir():
        return False
    bare = pattern.rstrip("/")
    if "/" not in bare:
        return fnmatchcase(path.name, bare)
    relative = path.relative_to(above).as_posix()
    return fnmatchcase(relative, bare.lstrip("/").removeprefix("**/")) or fnmatchcase(
        relative, bare.lstrip("/")
    )


def _is_from(module: Any, folder: str) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(folder + os.sep)
