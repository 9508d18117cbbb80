"""A recording: one line an answer, written as compressed JSON lines, and how two recordings are compared."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.golden.masks import DROPPED, Masks, round_numbers

LONGEST = 4_096
"Bytes of a body that are kept as text; of longer ones a digest is kept."


@dataclass(frozen=True)
class Line:
    """One answer."""

    family: str
    label: str
    status: int
    headers: dict[str, str]
    body: str
    "The text, or `sha256:` with the digest, the digest of the rounded text, and the length."

    @property
    def name(self) -> str:
        """Family and label, unique in a recording."""
        return f"{self.family}: {self.label}"

    @property
    def rounded(self) -> str:
        """The body for the second look."""
        if self.body.startswith("sha256:"):
            return self.body.split()[1]
        return _digest(round_numbers(self.body))


def make_body(text: str, *, whole: bool = False) -> str:
    """Return the text, or its digests when it is long."""
    if whole or len(text.encode()) <= LONGEST:
        return text
    return f"sha256:{_digest(text)} {_digest(round_numbers(text))} {len(text)}"


@dataclass
class Recording:
    """Answers in the order they were given."""

    whole: bool = False
    "Keep long bodies as text too, to look at differences."
    lines: list[Line] = field(default_factory=list)
    masks: Masks = field(default_factory=Masks)
    counts: Counter[str] = field(default_factory=Counter)

    def label(self, family: str, what: str) -> str:
        """Number the next answer of a family."""
        self.counts[family] += 1
        return f"{self.counts[family]:04d} {what}"

    def add(
        self, family: str, label: str, status: int, headers: Mapping[str, str], body: bytes | str
    ) -> None:
        """Append one answer, masked."""
        text = body if isinstance(body, str) else body.decode("utf-8", "backslashreplace")
        place = f"{family} {label.split()[0]}"
        kept = {
            name: self.masks.apply(value, place)
            for name, value in sorted(headers.items())
            if name not in DROPPED
        }
        if "allow" in kept:  # the framework lists methods in the order of a set
            kept["allow"] = ", ".join(sorted(kept["allow"].split(", ")))
        if "set-cookie" in kept:
            kept["set-cookie"] = kept["set-cookie"].partition("=")[0] + "=<random>"
        masked = make_body(self.masks.apply(text, place), whole=self.whole)
        self.lines.append(Line(family, label, status, kept, masked))

    def write(self, path: Path) -> None:
        """Write the file; equal recordings have equal bytes."""
        rows = [[line.family, line.label, line.status, line.headers, line.body] for line in self.lines]
        text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
            out.write(text.encode())


def read_lines(path: Path) -> list[Line]:
    """Read a recording."""
    with gzip.open(path, "rt", encoding="utf-8") as rows:
        return [Line(*json.loads(row)) for row in rows]


@dataclass
class Comparison:
    """What two recordings have in common."""

    equal: Counter[str]
    nearly: Counter[str]
    "Answers whose numbers agree in six significant digits only."
    differences: list[str]


def compare(before: Iterable[Line], after: Iterable[Line], *, exact: bool = False) -> Comparison:
    """Compare answer by answer, by name."""
    old, new = {answer.name: answer for answer in before}, {answer.name: answer for answer in after}
    result = Comparison(Counter(), Counter(), [])
    result.differences += [f"missing   {name}" for name in old if name not in new]
    result.differences += [f"new       {name}" for name in new if name not in old]
    for name, was in old.items():
        now = new.get(name)
        if now is None:
            continue
        if was == now:
            result.equal[was.family] += 1
        elif not exact and _is_near(was, now):
            result.nearly[was.family] += 1
        else:
            result.differences.append(f"different {name}\n" + "\n".join(_shown(was, now)))
    return result


def _is_near(was: Line, now: Line) -> bool:
    return (was.status, was.headers, was.rounded) == (now.status, now.headers, now.rounded)


def _shown(was: Line, now: Line) -> list[str]:
    """Describe the difference of two answers in a few lines."""
    lines = []
    if was.status != now.status:
        lines.append(f"    status   {was.status} -> {now.status}")
    for name in sorted({*was.headers, *now.headers}):
        if was.headers.get(name) != now.headers.get(name):
            lines.append(f"    {name}   {was.headers.get(name)} -> {now.headers.get(name)}")
    if was.body != now.body:
        at = next(
            (at for at, (a, b) in enumerate(zip(was.body, now.body, strict=False)) if a != b),
            min(len(was.body), len(now.body)),
        )
        start = max(at - 60, 0)
        lines.append(f"    body at {at}: ...{was.body[start : at + 80]!r}")
        lines.append(f"    {'now':>10} {'':>{len(str(at))}}...{now.body[start : at + 80]!r}")
    return lines


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
