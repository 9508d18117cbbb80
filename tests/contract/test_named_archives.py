"""Several archives in one installation: each has its own address, tokens, settings, people, clients and report."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import pytest

from cluster.records.apps import AppSettings
from cluster.records.archive.archive_client import ClientRule
from cluster.records.archive.archive_terms import ArchiveTerms
from cluster.records.archive.named_archive import NamedArchive
from tests.fakes.archive import HOST, ORIGIN, ArchiveCorner, open_archive_corner
from tests.fakes.archive_oauth import Person, Program, an_account, answer_of, http_over, visible
from tests.fakes.asgi import Answer, call

METADATA = "/.well-known/oauth-protected-resource"
ASK = {"name": "ask_archive", "arguments": {"question": "river rules"}}


@dataclass
class Apps:
    """The archives of an installation, as a keyring knows them."""

    archives: dict[str, NamedArchive] = field(default_factory=dict)
    terms: dict[str, dict[str, ArchiveTerms]] = field(default_factory=dict)
    settings: dict[str, AppSettings] = field(default_factory=dict)

    def default_archive_app(self, default: str) -> str:
        return default

    def find_archive(self, app_id: str) -> NamedArchive | None:
        return self.archives.get(app_id)

    def list_archives(self) -> Mapping[str, NamedArchive]:
        return self.archives

    def list_archive_terms(self) -> Mapping[str, Mapping[str, ArchiveTerms]]:
        return self.terms

    def settings_of(self, app_id: str) -> AppSettings:
        return self.settings.get(app_id, AppSettings())


@dataclass
class House:
    """Three archives, a person, and a client application."""

    apps: Apps
    corner: ArchiveCorner
    person: Person
    program: Program

    async def authorize(self, archive_id: str) -> str:
        """Return a code for an archive."""
        page = await self.person.open(
            "/oauth/authorize/archive", **self.program.asks(resource=resource(archive_id))
        )
        if 'name="password"' in page.text:
            page = await self.person.sign_in()
        assert page.status_code == 200, page.text
        return answer_of(await self.person.press("allow"))["code"]

    async def tokens(self, archive_id: str) -> dict[str, str]:
        """Return tokens for an archive."""
        code = await self.authorize(archive_id)
        answer = await self.program.redeem(code, resource=resource(archive_id))
        assert answer.status_code == 200, answer.text
        tokens: dict[str, str] = answer.json()
        return tokens

    async def rpc(
        self, archive_id: str, token: str, method: str = "tools/call", params: object = None
    ) -> Answer:
        """Call an archive."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": ASK if params is None else params}
        return await self.corner.post(json.dumps(message).encode(), token=token, target=path(archive_id))

    async def get(self, target: str) -> Answer:
        """Load a page."""
        return await call(self.corner.app, "GET", target, headers={"host": HOST})


def path(archive_id: str) -> str:
    return f"/mcp/{archive_id}" if archive_id else "/mcp"


def resource(archive_id: str) -> str:
    return ORIGIN + path(archive_id)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    sports = NamedArchive(
        title="Sports", subjects="sport", languages=("en", "de"), licence="CC BY 4.0", connectors=True,
        members_only=False,
    )  # fmt: skip
    apps = Apps({"sports": sports, "wine": NamedArchive(title="Wine <b>")})
    corner = await open_archive_corner(apps=apps)
    await corner.services.start()
    await corner.stores.accounts.add(an_account().model_copy(update={"roles": {"wine": "viewer"}}))
    async with http_over(corner.app) as http, http_over(corner.app) as browser:
        program = Program(http)
        await program.register()
        yield House(apps, corner, Person(browser), program)
    await corner.services.close()


async def test_a_token_opens_the_archive_it_was_issued_for_and_no_other(house: House) -> None:
    names = ("", "sports", "wine")
    tokens = {name: await house.tokens(name) for name in names}
    for issued_for, used_at in product(names, names):
        answer = await house.rpc(used_at, tokens[issued_for]["access_token"])
        assert answer.status == (200 if issued_for == used_at else 401), (issued_for, used_at)
        if issued_for != used_at:
            address = f"{ORIGIN}{METADATA}{path(used_at)}"
            assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{address}"'
            refused = await house.program.refresh(
                tokens[issued_for]["refresh_token"], resource=resource(used_at)
            )
            assert refused.json()["error"] == "invalid_target"


async def test_a_code_of_one_archive_gives_no_token_of_another(house: House) -> None:
    answer = await house.program.redeem(await house.authorize("sports"), resource=resource("wine"))
    assert answer.json()["error"] == "invalid_target"
    without = await house.program.redeem(await house.authorize("sports"), resource=None)
    assert (await house.rpc("", without.json()["access_token"])).status == 401
    assert (await house.rpc("sports", without.json()["access_token"])).status == 200


async def test_every_archive_describes_itself(house: House) -> None:
    document = (await house.get(METADATA + "/mcp/sports")).json()
    assert (document["resource"], document["resource_name"]) == (ORIGIN + "/mcp/sports", "Sports")
    assert document["resource_documentation"] == ORIGIN + "/mcp/sports/llms.txt"
    guide = (await house.get("/mcp/sports/llms.txt")).body.decode()
    assert "# Sports\n" in guide
    assert "archive (sport) for" in guide
    assert "Languages: en, de\n" in guide
    assert f"claude mcp add --transport http sports {ORIGIN}/mcp/sports" in guide
    assert "Creative Commons Attribution 4.0" in guide
    assert f"]({ORIGIN}{METADATA}/mcp/sports)" in guide
    card = (await house.get("/mcp/sports/server-card")).json()
    assert (card["title"], card["name"]) == ("Sports", "com.example.news/sports")
    assert card["remotes"][0]["url"] == ORIGIN + "/mcp/sports"
    catalog = (await house.get("/.well-known/ai-catalog.json")).json()
    urls = [entry["url"] for entry in catalog["entries"]]
    assert urls == [f"{ORIGIN}{path(name)}/server-card" for name in ("", "sports", "wine")]
    assert len({entry["identifier"] for entry in catalog["entries"]}) == 3
    token = (await house.tokens("sports"))["access_token"]
    listed = (await house.rpc("sports", token, "tools/list", {})).json()["result"]["tools"]
    assert [tool["name"] for tool in listed] == [
        "ask_archive", "get_archive_article", "check_citations", "search", "fetch",
    ]  # fmt: skip
    assert "(sport)" in listed[0]["description"]
    params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
    begun = (await house.rpc("sports", token, "initialize", params)).json()
    assert begun["result"]["serverInfo"]["title"] == "Sports"


@pytest.mark.parametrize(
    "name", ["nobody", "playground", "a%0d%0ab", "%22", "é", "server-card", "sports/more"]
)
async def test_an_unknown_archive_has_no_pages_and_no_tokens(house: House, name: str) -> None:
    token = (await house.tokens(""))["access_token"]
    answer = await house.corner.post(b"{}", token=token, target=f"/mcp/{name}")
    assert answer.status in (401, 404, 405)
    if answer.status == 401:
        assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{ORIGIN}{METADATA}/mcp"'
    if name != "server-card":
        assert (await house.get(f"/mcp/{name}/llms.txt")).status == 404
    assert (await house.get(f"{METADATA}/mcp/{name}")).status == 404
    request = house.program.asks(resource=f"{ORIGIN}/mcp/{name}")
    page = await house.person.open("/oauth/authorize/archive", **request)
    assert answer_of(page)["error"] == "invalid_target"


async def test_consent_names_the_archive_and_the_list_of_connections_too(house: House) -> None:
    request = house.program.asks(resource=resource("wine"))
    page = await house.person.open("/oauth/authorize/archive", **request)
    assert "Wine &lt;b&gt;" in page.text
    page = await house.person.sign_in()
    assert "Wine &lt;b&gt;" in page.text
    assert "News Archive Search" not in page.text
    await house.tokens("wine")
    await house.tokens("")
    listed = visible((await house.person.open("/oauth/authorize/clients")).text)
    assert listed.count("for Wine &lt;b&gt;") == 1
    assert listed.count("Disconnect") == 2


async def test_an_archive_for_members_refuses_other_accounts_at_every_step(house: House) -> None:
    tokens, code = await house.tokens("wine"), await house.authorize("wine")
    request = house.program.asks(resource=resource("wine"))
    await house.person.open("/oauth/authorize/archive", **request)
    await house.corner.stores.accounts.update("ada", lambda account: account.model_copy(update={"roles": {}}))
    pressed = await house.person.press("allow")
    assert "code=" not in pressed.headers["location"]
    page = await house.person.open("/oauth/authorize/archive", **request)
    assert page.status_code == 403
    assert "The account ada has no access to this archive." in visible(page.text)
    late = await house.program.redeem(code, resource=resource("wine"))
    assert late.json()["error"] == "invalid_grant"
    refused = await house.program.refresh(tokens["refresh_token"], resource=resource("wine"))
    assert refused.json() == {
        "error": "invalid_grant", "error_description": "the archive is not open to the account",
    }  # fmt: skip
    await house.tokens("sports")


async def test_rules_limits_and_calls_belong_to_one_archive(house: House) -> None:
    rules = house.corner.stores.client_rules
    await rules.put("sports", ClientRule(client="Reader", calls_per_minute=12))
    await rules.put("wine", ClientRule(client="*", decision="deny"))
    tokens = {name: (await house.tokens(name))["access_token"] for name in ("", "sports", "wine")}
    answers = {name: [(await house.rpc(name, tokens[name])).json() for _ in range(3)] for name in tokens}
    assert ["result" in answer for answer in answers[""]] == [True, True, True]
    assert ["result" in answer for answer in answers["sports"]] == [True, False, False]
    assert "not allowed" in answers["wine"][0]["error"]["message"]
    assert {query.app_id for query in house.corner.archive.queries} == {"playground", "sports"}
    await house.corner.services.close()
    for app_id, outcomes in (
        ("playground", ["answered"] * 3),
        ("sports", ["answered", "refused", "refused"]),
        ("wine", ["refused"] * 3),
    ):
        calls = await house.corner.stores.archive_calls.read_all(app_id, "0")
        assert [entry.outcome for entry in calls] == outcomes


async def test_an_offset_of_one_archive_is_refused_in_another(house: House) -> None:
    tokens = {name: (await house.tokens(name))["access_token"] for name in ("", "sports")}
    answer = (await house.rpc("", tokens[""])).json()["result"]["structuredContent"]["results"][0]
    pair = {"product_id": answer["product_id"], "offset": answer["offset"]}
    read = {"name": "get_archive_article", "arguments": pair}
    assert "result" in (await house.rpc("", tokens[""], params=read)).json()
    assert (
        "were not returned by"
        in (await house.rpc("sports", tokens["sports"], params=read)).json()["error"]["message"]
    )


async def test_changed_settings_apply_at_once_and_a_closed_archive_is_gone(house: House) -> None:
    token = (await house.tokens("sports"))["access_token"]
    before = house.apps.archives["sports"]
    first = await house.corner.services.archives.find("sports")
    house.apps.archives["sports"] = before.model_copy()
    assert await house.corner.services.archives.find("sports") is first, "equal settings build nothing anew"
    house.apps.archives["sports"] = before.model_copy(update={"subjects": "chess"})
    listed = (await house.rpc("sports", token, "tools/list", {})).json()["result"]["tools"]
    assert "(chess)" in listed[0]["description"]
    del house.apps.archives["sports"]
    assert (await house.rpc("sports", token)).status == 401
    assert (await house.get("/mcp/sports/llms.txt")).status == 404
    assert (await house.rpc("", token)).status == 401
    house.apps.archives["sports"] = before
    assert (await house.rpc("sports", token)).status == 200


async def test_strangers_check_citations_of_archives_that_are_open_to_every_account(house: House) -> None:
    body = json.dumps(
        {"citations": [{"product_id": "na-1002", "passage": "river water rules april"}]}
    ).encode()

    async def statuses(archive_id: str) -> list[int]:
        check = await house.corner.post(body, token="", target=f"{path(archive_id)}/citations.json")
        feed = await house.get(f"{path(archive_id)}/corrections.json")
        assert (b"Farms must meter" in check.body) == (check.status == 200)
        return [check.status, feed.status, (await house.get(f"{path(archive_id)}/jwks.json")).status]

    assert await statuses("") == await statuses("sports") == [200, 200, 200]
    # Only the keys: statements that members hand on can be verified.
    assert await statuses("wine") == [404, 404, 200]
    house.apps.archives["wine"] = NamedArchive(title="Wine", members_only=False)
    assert await statuses("wine") == [200, 200, 200]
