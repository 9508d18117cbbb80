"""Plays the marked code blocks of documentation pages against an app in this process.

A comment above a block marks it:

    <!-- run -->      `bash`: the curl commands are sent; `python`: the code runs; `html`: a browser opens the page
    <!-- answer -->   `json`: what the last command must answer; keys that are left out are not compared
    <!-- after PAGE -->   anywhere: the blocks of PAGE (from the top of docs/) are played before

In a bash block, a line `# 422` or `# 422: reason` above a command names the status it must get.
`NAME=$(curl ... | jq -r .path)` keeps a value of the answer for later commands. A python block may `await`; it has
`SECRET_KEY`, `PUBLISHABLE_KEY` and `stores`, and texts that it assigns are variables of later commands.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.example_player import SECOND_MS, ExamplePlayer
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER
from tests.house.tree import ROOT
from tests.suites.waiting import until

DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^<!-- (run|answer) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_AFTER = re.compile(r"^<!-- after ([\w./-]+) -->$", re.MULTILINE)
_KEPT = re.compile(r"^([A-Z_]+)=\$\((curl .*) \| jq -r '?\.([\w.\[\]]+)'?\)$", re.DOTALL)
_ADDRESS = re.compile(r"\$URL\b|http://localhost:8000|\blocalhost:8000")


@dataclass(frozen=True)
class Block:
    """One marked block of a page."""

    use: str
    "`run` or `answer`."
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """One curl command of a bash block."""

    text: str
    status: int
    "The HTTP status that the page promises."
    keep: str = ""
    "The shell variable that takes a value of the answer."
    path: str = ""
    "Where that value is in the answer, as `data.question_id`."


def marked_pages() -> list[Path]:
    """List README and the pages of docs/ that have marked blocks."""
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in pages if read_blocks(page)]


def read_blocks(page: Path) -> list[Block]:
    """Read the marked blocks of a page in their order."""
    return [Block(*match) for match in _BLOCK.findall(page.read_text("utf-8"))]


def read_pages_before(page: Path) -> list[Path]:
    """Read which pages must be played before a page."""
    return [DOCS / name for name in _AFTER.findall(page.read_text("utf-8"))]


def parse_commands(text: str) -> Iterator[Command]:
    """Parse the curl commands of a bash block.

    Errors: AssertionError for a line that belongs to no command, so that no command is left out silently.
    """
    status, lines = 200, list[str]()

    def parsed() -> Command:
        command = "\n".join(lines).replace("\\\n", " ").strip()
        kept = _KEPT.match(command)
        return Command(kept[2], status, kept[1], kept[3]) if kept else Command(command, status)

    for line in text.splitlines():
        starts = re.match(r"curl |[A-Z_]+=\$\(curl |# ", line)
        if starts and lines:
            yield parsed()
            status, lines = 200, []
        if named := re.match(r"# (\d{3})(?:: .*)?$", line):
            status = int(named[1])
        elif not line.startswith("# ") and line.strip():
            assert lines or starts, f"no curl command: {line}"
            lines.append(line)
    if lines:
        yield parsed()


class PagePlayer:
    """An app that is empty at first, and the variables that the blocks of a page set."""

    def __init__(self, player: ExamplePlayer) -> None:
        self.player = player
        self.last: Answer | None = None
        corner = player.corner
        self._names: dict[str, Any] = {
            "SECRET_KEY": corner.secret(), "PUBLISHABLE_KEY": corner.publishable(), "stores": corner.stores,
        }  # fmt: skip
        self.variables = {"KEY": corner.secret(), "PUBLISHABLE": corner.publishable(), "BROWSER": BROWSER}

    async def play(self, page: Path) -> int:
        """Play the blocks of a page; return the number of commands, programs and answers that were checked."""
        played = 0
        for block in read_blocks(page):
            if block.use == "answer":
                assert self.last is not None, page
                difference = compare_answer(json.loads(block.text), self.last.json())
                assert difference is None, (page.name, difference, self.last.body)
            elif block.language == "bash":
                for command in parse_commands(block.text):
                    await self._send(page, command)
            elif block.language == "python":
                await self._run(page, block.text)
            played += 1
        return played

    async def _run(self, page: Path, code: str) -> None:
        # The page signs for a clock that goes; the one of this app stands still.
        code = code.replace("time.time()", str(self.player.corner.clock.now_ms() / 1000))
        program = compile(code, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        awaited = eval(program, self._names)
        if awaited is not None:
            await awaited
        texts = {name: value for name, value in self._names.items() if isinstance(value, str)}
        self.variables |= {name.upper(): value for name, value in texts.items() if not name.startswith("_")}

    async def _send(self, page: Path, command: Command) -> None:
        async def is_answered() -> bool:
            self.last = await self._call(command.text)
            return not is_unfinished(self.last)

        await until(is_answered)
        assert self.last.status == command.status, (page.name, command.text, self.last.body)
        if command.keep:
            value = self.last.json()
            for name in command.path.replace("[", ".").replace("]", "").split("."):
                value = value[int(name)] if name.isdecimal() else value[name]
            self.variables[command.keep] = str(value)

    async def _call(self, command: str) -> Answer:
        command = _ADDRESS.sub("", command)
        for name, value in self.variables.items():
            command = re.sub(rf"\$(?:{name}\b|{{{name}}})", lambda _, value=value: value, command)
        words = iter(shlex.split(command)[1:])
        method, target, body, headers = "", "", None, {"User-Agent": "curl/8"}
        for word in words:
            if word == "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            elif word == "-A":
                headers["User-Agent"] = next(words)
            elif word == "-X":
                method = next(words)
            elif word == "-d":
                body = next(words).encode()
            elif word != "-s":
                assert not target, (word, command)
                target = word
        method = method or ("GET" if body is None else "POST")
        answer = await call(self.player.corner.handler, method, target, headers=headers, body=body)
        await self.player.apply()
        self.player.corner.clock.pass_ms(SECOND_MS)
        return answer


def is_unfinished(answer: Answer) -> bool:
    """Tell whether an answer is the state of a question that is still being worked on."""
    try:
        data = answer.json().get("data")
    except (ValueError, AttributeError):
        return False
    return isinstance(data, dict) and data.get("finished") is False


def compare_answer(shown: Any, answered: Any, place: str = "") -> str | None:
    """Return where an answer differs from what a page shows, or None; the page may leave keys out."""
    if isinstance(shown, dict) and isinstance(answered, dict):
        for name, value in shown.items():
            if name not in answered:
                return f"{place}.{name} is missing"
            if difference := compare_answer(value, answered[name], f"{place}.{name}"):
                return difference
        return None
    if isinstance(shown, list) and isinstance(answered, list) and len(shown) == len(answered):
        pairs = enumerate(zip(shown, answered, strict=True))
        return next(filter(None, (compare_answer(*pair, f"{place}[{at}]") for at, pair in pairs)), None)
    return None if shown in ("...", answered) else f"{place} is {answered!r}"
