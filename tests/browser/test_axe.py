"""The vendored accessibility checker is the published file, and it finds a fault."""

from __future__ import annotations

import hashlib

import pytest

from tests.browser.axe import FILE, find_faults
from tests.browser.site import Site
from tests.contract.oauth.test_browser import BROWSER

FAULTY = "<html lang=en><title>x</title><main><h1>x</h1><input><p style='color:#ccc'>pale"


def test_the_vendored_checker_is_the_published_file() -> None:
    digest = hashlib.sha256(FILE.read_bytes()).hexdigest()
    assert digest in FILE.with_name("SOURCE.md").read_text("utf-8")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on PATH nor in KIOSK_TEST_BROWSER")
async def test_the_checker_finds_a_field_without_a_name_and_pale_text(site: Site) -> None:
    async with site.visit() as page:
        await page.set_content(FAULTY)
        faults = await find_faults(page)
    assert {fault.split(" ")[0] for fault in faults} == {"label", "color-contrast"}
