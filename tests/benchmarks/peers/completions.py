"""Completions by others: minisearch, flexsearch, fuse.js, PostgreSQL's trigrams, and a scan with rapidfuzz.

The JavaScript libraries are installed from their registry into a scratch folder; PostgreSQL is a server of its own in
another. What is not at hand is left out with a reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rapidfuzz import fuzz, process

from actors.language.folding import fold_text
from tests.benchmarks.typos import Titles

_SCRIPT = Path(__file__).with_name("completions.mjs")


@dataclass(frozen=True, slots=True)
class Answers:
    """What a peer found for each query, best first, and how long each took."""

    peer: str
    rows: list[list[int]]
    ms: list[float]
    build_s: float = 0.0
    why_not: str = ""


def install_javascript(scratch: Path) -> str:
    """Install the JavaScript libraries; say why not when that fails."""
    if shutil.which("npm") is None:
        return "npm is not installed"
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / "package.json").write_text('{"private": true}')
    done = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "minisearch", "flexsearch", "fuse.js"],
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else f"npm install failed: {done.stderr.strip()[-200:]}"


def javascript(library: str, titles: Titles, queries: Sequence[str], count: int, scratch: Path) -> Answers:
    """Ask one of the JavaScript libraries."""
    given = scratch / "given.json"
    given.write_text(
        json.dumps(
            {
                "library": library,
                "titles": titles.texts,
                "popularity": titles.popularity,
                "queries": list(queries),
                "count": count,
            }
        )
    )
    done = subprocess.run(
        ["node", "--max-old-space-size=8192", str(_SCRIPT), str(given), str(scratch)],
        capture_output=True,
        text=True,
        check=False,
        timeout=1_800,
    )
    if done.returncode:
        return Answers(library, [], [], why_not=done.stderr.strip()[-300:])
    report = json.loads(done.stdout)
    return Answers(library, report["found"], report["ms"], report["build_s"])


def rapidfuzz_scan(titles: Titles, queries: Sequence[str], count: int) -> Answers:
    """Compare every title with what was typed; of equals the more popular one."""
    texts = [fold_text(text) for text in titles.texts]
    pull = np.log1p(np.array(titles.popularity))
    pull = pull / max(float(pull.max()), 1e-9)
    rows, ms = [], []
    for query in queries:
        began = time.perf_counter()
        scores = (
            process.cdist([fold_text(query)], texts, scorer=fuzz.partial_ratio, dtype=np.float32)[0]
            + 8 * pull
        )
        best = np.argpartition(-scores, count)[:count]
        rows.append(best[np.argsort(-scores[best])].tolist())
        ms.append((time.perf_counter() - began) * 1e3)
    return Answers("rapidfuzz scan", rows, ms)


def trigrams(titles: Titles, queries: Sequence[str], count: int, scratch: Path) -> Answers:
    """Ask PostgreSQL's pg_trgm, by word similarity over a GiST index."""
    name = "pg_trgm"
    if shutil.which("initdb") is None:
        return Answers(name, [], [], why_not="PostgreSQL is not installed")
    try:
        import psycopg
    except ImportError:
        return Answers(name, [], [], why_not="psycopg is not installed")
    home = scratch / "postgres"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    as_user: list[str] = []
    if os.getuid() == 0:
        shutil.chown(home, "nobody")
        os.chmod(scratch, 0o755)
        as_user = ["setpriv", "--reuid=nobody", "--clear-groups"]
    made = subprocess.run(
        [*as_user, "initdb", "-D", str(home / "data"), "-U", "bench", "--auth=trust", "--no-sync"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        return Answers(name, [], [], why_not=made.stderr.strip()[-200:])
    server = subprocess.Popen(
        [
            *as_user,
            "postgres",
            "-D",
            str(home / "data"),
            "-k",
            str(home),
            "-c",
            "listen_addresses=",
            "-c",
            "shared_buffers=512MB",
            "-c",
            "fsync=off",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return _ask_trigrams(psycopg, home, titles, queries, count)
    except psycopg.Error as error:
        return Answers(name, [], [], why_not=str(error)[:200])
    finally:
        server.terminate()
        server.wait()


def _ask_trigrams(psycopg: object, home: Path, titles: Titles, queries: Sequence[str], count: int) -> Answers:
    connect = psycopg.connect  # type: ignore[attr-defined]
    for _ in range(100):
        try:
            connection = connect(host=str(home), user="bench", dbname="postgres", autocommit=True)
            break
        except Exception:  # noqa: BLE001 - it is still starting
            time.sleep(0.1)
    with connection, connection.cursor() as cursor:
        began = time.perf_counter()
        cursor.execute("create extension pg_trgm")
        cursor.execute("create table title (id int, text text, pull real)")
        with cursor.copy("copy title from stdin") as copy:
            for at, text in enumerate(titles.texts):
                copy.write_row((at, fold_text(text), float(np.log1p(titles.popularity[at]))))
        cursor.execute("create index on title using gist (text gist_trgm_ops(siglen=64))")
        cursor.execute("analyze title")
        build_s = time.perf_counter() - began
        rows, ms = [], []
        for query in queries:
            began = time.perf_counter()
            cursor.execute(
                "select id from title order by %s <<-> text, pull desc limit %s", (fold_text(query), count)
            )
            rows.append([row[0] for row in cursor.fetchall()])
            ms.append((time.perf_counter() - began) * 1e3)
    return Answers("pg_trgm", rows, ms, build_s)
