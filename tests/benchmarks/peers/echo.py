"""A bare FastAPI echo: the least a Python HTTP service can do, and so the limit we measure against.

Run it with `uvicorn tests.benchmarks.peers.echo:app --no-access-log`.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

app = FastAPI()


@app.get("/echo/{text}")
async def read(text: str) -> dict[str, Any]:
    """Answer with the path's text."""
    return {"message": "success", "data": {"text": text}}


@app.post("/echo")
async def write(body: dict[str, Any]) -> dict[str, Any]:
    """Answer with the body."""
    return {"message": "success", "data": body}
