"""Sites of a publisher over real HTTPS: five formats of feeds, pages of articles, and the journal of what is true."""

from __future__ import annotations

import gzip
import json
import ssl
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any
from xml.sax.saxutils import escape as xml

from tests.fakes.certificates import Authority
from tests.fakes.document_host import DocumentHost

FORMATS = ("rss", "atom", "json", "sitemap", "wxr")
HOSTS = (*(f"{name}.example.com" for name in FORMATS), "broken.example.com", "internal.example.com")
HEAD = 'xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/"'


@dataclass
class Article:
    """One article as its publisher has it."""

    format: str
    number: int
    version: int = 1
    status: int = 200
    "Of its page."
    is_listed: bool = True
    is_announced: bool = False
    "Whether the feed announces its removal."
    date: str = "2026-03-02T09:15:30Z"
    note: str = ""
    is_free: bool = True

    @property
    def path(self) -> str:
        return f"/news/{self.number}"

    @property
    def address(self) -> str:
        return f"https://{self.format}.example.com{self.path}"

    @property
    def guid(self) -> str:
        return self.address if self.number % 2 else f"tag:{self.format}.example.com:{self.number}"

    @property
    def title(self) -> str:
        return f"Story {self.format} {self.number}"

    @property
    def text(self) -> str:
        return f"The bridge number {self.number} of {self.format} was opened in version {self.version} – für Öl & ü."


@dataclass
class Reply:
    """A response of the site."""

    body: bytes = b""
    kind: str = "application/xml"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def encode(self, method: str, seen: dict[str, str]) -> bytes:
        """Return the bytes; 304 for who has them."""
        etag = f'"{hash(self.body) & 0xFFFFFFFF:x}"'
        status, body = self.status, self.body
        if status == 200 and seen.get("if-none-match") == etag:
            status, body = 304, b""
        headers = {"content-type": self.kind, "etag": etag, **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode()
        return head + (b"" if method == "HEAD" else body)


class PublisherSite(DocumentHost):
    """All hosts of the publisher behind one port."""

    def __init__(self, authority: Authority) -> None:
        self.articles: list[Article] = []
        self.replies: dict[str, Callable[[], Reply] | Reply] = {}
        "Host and path -> a reply of its own."
        self.robots: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.running: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.times: dict[str, list[float]] = defaultdict(list)
        self.delay_s = 0.0
        super().__init__(authority, HOSTS)

    def fill(self, count: int) -> None:
        """Write as many articles of every format."""
        for name in FORMATS:
            self.articles += [Article(name, number) for number in range(count)]
        for article in self.articles:
            if article.number % 10 == 3:
                article.date = ("2999-01-01T00:00:00Z", "yesterday", "0000-00-00", "2026-13-77")[
                    article.number % 4
                ]

    def of(self, name: str) -> list[Article]:
        return [article for article in self.articles if article.format == name]

    def journal(self) -> dict[str, str]:
        """Return title -> text of every article that the archive has to have."""
        return {
            article.title: article.text
            for article in self.articles
            if article.status not in (404, 410) and not article.is_announced
        }

    def reply(self, host: str, path: str) -> Reply:
        """Return what the site answers."""
        special = self.replies.get(host + path)
        if special is not None:
            return special if isinstance(special, Reply) else special()
        if path == "/robots.txt":
            text = self.robots.get(host)
            return Reply(text.encode(), "text/plain") if text is not None else Reply(status=404)
        name = host.partition(".")[0]
        if path == "/feed" and name in FORMATS:
            return getattr(self, f"_{name}")()
        if path.startswith("/news/"):
            number = int(path.removeprefix("/news/").partition("?")[0])
            article = next((a for a in self.of(name) if a.number == number), None)
            return Reply(status=404) if article is None else self._page(article)
        if name == "sitemap" and path == "/news.xml.gz":
            return Reply(gzip.compress(self._urlset(), mtime=0), "application/gzip")
        return Reply(status=404)

    def _rss(self) -> Reply:
        items = "".join(
            f"<item><guid isPermaLink='false'>{a.guid}</guid><title>{a.title}</title>"
            f"<link>{a.address}?utm_source=rss</link><pubDate>{a.date}</pubDate><dc:creator>Ada</dc:creator>"
            f"<category>World</category><content:encoded><![CDATA[<p>{escape(a.text)}</p>]]></content:encoded></item>"
            for a in self._listed("rss")
        )
        text = f"<?xml version='1.0' encoding='iso-8859-1'?><rss {HEAD}><channel>{items}</channel></rss>"
        return Reply(text.encode("iso-8859-1", "xmlcharrefreplace"), "application/rss+xml; charset=utf-8")

    def _atom(self) -> Reply:
        entries = "".join(
            f"<entry><id>{a.guid}</id><title>{a.title}</title><link href='{a.path}'/><updated>{a.date}</updated>"
            f"<content type='html'>{xml('<p>' + escape(a.text) + '</p>')}</content></entry>"
            for a in self._listed("atom")
        )
        gone = "".join(
            f"<at:deleted-entry ref='{a.guid}' when='2026-04-01T00:00:00Z'/>" for a in self._announced("atom")
        )
        text = (
            "<?xml version='1.0' encoding='x-no-such-encoding'?><feed xmlns='http://www.w3.org/2005/Atom' "
            f"xmlns:at='http://purl.org/atompub/tombstones/1.0'>{entries}{entries}{gone}</feed>"
        )
        return Reply(text.encode(), "application/atom+xml")

    def _json(self) -> Reply:
        items: list[dict[str, Any]] = [
            {
                "id": a.guid, "url": a.address, "title": a.title, "content_html": f"<p>{escape(a.text)}</p>",
                "date_published": a.date, "authors": [{"name": "Ada"}], "tags": ["World"],
            }
            for a in self._listed("json")
        ]  # fmt: skip
        document = {
            "version": "https://jsonfeed.org/version/1.1", "title": "News", "items": [*items, None, 7, {"id": []}],
            "next_url": "https://json.example.com/feed",
        }  # fmt: skip
        return Reply(json.dumps(document).encode(), "application/feed+json")

    def _sitemap(self) -> Reply:
        places = ("https://sitemap.example.com/news.xml.gz", "https://sitemap.example.com/feed", "ftp://[x/")
        links = "".join(f"<sitemap><loc>{place}</loc></sitemap>" for place in places)
        return Reply(
            f"<sitemapindex xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{links}</sitemapindex>".encode()
        )

    def _urlset(self) -> bytes:
        urls = "".join(
            f"<url><loc>{a.address}</loc><lastmod>2026-03-0{min(a.version, 9)}</lastmod><news:news><news:title>x"
            "</news:title></news:news></url>"
            for a in self._listed("sitemap")
        )
        # a sitemap lists the articles of another feed of the same publisher too
        urls += "".join(f"<url><loc>{a.address}#top</loc></url>" for a in self._listed("json")[:3])
        return (
            "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9' "
            f"xmlns:news='http://www.google.com/schemas/sitemap-news/0.9'>{urls}</urlset>"
        ).encode()

    def _wxr(self) -> Reply:
        def item(a: Article, status: str, kind: str = "post") -> str:
            return (
                f"<item><title>{a.title}</title><link>{a.address}</link><guid isPermaLink='false'>{a.guid}</guid>"
                f"<dc:creator>ada</dc:creator><content:encoded><![CDATA[{escape(a.text)}\n\n[gallery ids='1']]]>"
                f"</content:encoded><wp:post_date_gmt>2026-03-02 09:15:30</wp:post_date_gmt><wp:status>{status}"
                f"</wp:status><wp:post_type>{kind}</wp:post_type><category domain='category'>World</category></item>"
            )

        draft = Article("wxr", 900_000)
        items = "".join(item(a, "publish") for a in self._listed("wxr"))
        items += "".join(item(a, "trash") for a in self._announced("wxr"))
        items += item(draft, "draft") + item(draft, "publish", "page")
        names = (("author_login", "ada"), ("author_display_name", "Ada Byron"))
        author = (
            "<wp:author>" + "".join(f"<wp:{name}>{text}</wp:{name}>" for name, text in names) + "</wp:author>"
        )
        text = (
            f"<rss {HEAD} xmlns:wp='http://wordpress.org/export/1.2/'><channel><language>en-US</language>"
            f"{author}{items}</channel></rss>"
        )
        return Reply(text.encode(), "text/xml")

    def _page(self, a: Article) -> Reply:
        if a.status != 200:
            return Reply(status=a.status)
        described = {
            "@context": "https://schema.org", "@type": "NewsArticle", "headline": a.title, "articleBody": a.text,
            "datePublished": a.date, "author": {"@type": "Person", "name": "Ada"}, "articleSection": "World",
            "isAccessibleForFree": a.is_free, "mainEntityOfPage": a.address, "image": ["/a.jpg"],
        }  # fmt: skip
        if a.note:
            described["correction"] = {
                "@type": "CorrectionComment",
                "text": a.note,
                "datePublished": "2026-04-02",
            }
        other = {
            "@type": "NewsArticle",
            "headline": "Something else",
            "articleBody": "Else.",
            "url": "https://x/",
        }
        page = (
            f"<html><head><link rel='canonical' href='{a.path}'><script type='application/ld+json'>"
            f"{json.dumps([other, {'@graph': [described]}])}</script></head><body>{escape(a.text)}</body></html>"
        )
        return Reply(page.encode(), "text/html; charset=utf-8")

    def _listed(self, name: str) -> list[Article]:
        return [a for a in self.of(name) if a.is_listed and not a.is_announced]

    def _announced(self, name: str) -> list[Article]:
        return [a for a in self.of(name) if a.is_announced]

    def _serve(self, plain: Any) -> None:
        plain.settimeout(20)
        host = ""
        try:
            with plain, self._context.wrap_socket(plain, server_side=True) as secured:
                request = b""
                while b"\r\n\r\n" not in request:
                    if not (chunk := secured.recv(4096)):
                        return
                    request += chunk
                first, *lines = request.decode("latin-1").split("\r\n")
                method, path, _ = first.split(" ")
                seen = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                host = seen["host"]
                self.running[host] += 1
                self.most_at_once[host] = max(self.most_at_once[host], self.running[host])
                self.calls[host + path] += 1
                self.times[host].append(time.monotonic())
                if self.delay_s:
                    self.is_closing.wait(self.delay_s)
                answer = self.reply(host, path).encode(method, seen)
                self.statuses[int(answer[9:12])] += 1
                secured.sendall(answer)
        except (OSError, ssl.SSLError):
            pass
        finally:
            if host:
                self.running[host] -= 1
