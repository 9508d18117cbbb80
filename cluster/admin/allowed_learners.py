"""The custom learner classes that this installation allows: a setting, and a file that a command manages.

    <data_dir>/learners       one `package.module:Class` in each line, `#` begins a comment

Neither the artifact store nor Redis contains the list, because their writers must not decide what is
imported.
"""

from __future__ import annotations

import re

from cluster.errors import Fault, Invalid, NotFound
from cluster.paths import InstallationPaths, write_private
from cluster.settings import Settings

_FORM = re.compile(r"[A-Za-z_][\w.]{0,200}:[A-Za-z_]\w{0,100}")


def allowed_learners(settings: Settings) -> frozenset[str]:
    """Return the classes that are allowed now.

    Cost:
        one small file; read when a snapshot is loaded or a training begins
    """
    return frozenset({*_parse_list(settings.learners.replace(",", "\n")), *_read_list(settings)})


def allow_learner(settings: Settings, learner: str) -> bool:
    """Add a class to the list; return False when it is allowed already.

    Errors:
        Invalid: the text names no class
    """
    if not _FORM.fullmatch(learner):
        raise Invalid(f"{learner[:200]!r} names no class; write package.module:Class")
    if learner in allowed_learners(settings):
        return False
    _write(settings, {*_read_list(settings), learner})
    return True


def remove_learner(settings: Settings, learner: str) -> None:
    """Remove a class from the list.

    Errors:
        Invalid: the setting contains it; only a restart with another setting can change that
        NotFound: the class is not allowed
    """
    kept = set(_read_list(settings))
    if learner in kept:
        _write(settings, kept - {learner})
    elif learner in allowed_learners(settings):
        raise Invalid(f"{learner} stands in KIOSK_LEARNERS; take it out there and start again")
    else:
        raise NotFound(f"{learner[:200]!r} is not allowed; see `kiosk learners list`")


def _read_list(settings: Settings) -> list[str]:
    path = InstallationPaths.from_data_dir(settings.data_dir).learners
    try:
        return _parse_list(path.read_text("utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise Fault(f"the list of allowed learners can't be read: {path}") from error


def _parse_list(text: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if _FORM.fullmatch(line)]


def _write(settings: Settings, learners: set[str]) -> None:
    paths = InstallationPaths.from_data_dir(settings.data_dir)
    paths.make()
    write_private(paths.learners, "".join(f"{learner}\n" for learner in sorted(learners)))
