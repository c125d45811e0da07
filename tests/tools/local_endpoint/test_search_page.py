"""The page for people, over HTTP and in a browser, with small models of all kinds."""

import base64
import hashlib
import re

import httpx2
import pytest
from botocore.credentials import Credentials

from tests.fixtures.models_together import write_together
from tests.fixtures.waiting import PATIENCE
from tests.tools.local_endpoint.browser import CHROMIUM, browser
from tools.local_endpoint.endpoint import endpoint
from tools.local_endpoint.models import documents_of

LOCAL = Credentials("local", "local")
#: A text that would run, if it were markup.
MARKUP = "<img src=x onerror=\"document.title='run'\"><script>document.title = 'run'</script>"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def built(root):
    """Return the folders of three small models and of an index without documents."""
    return write_together(root, ["parse a date", "hello"])


@pytest.fixture(scope="module")
def url(root, built):
    """Serve a folder of four documents; its address."""
    models, _ = built
    folder = root / "documents"
    (folder / "acme").mkdir(parents=True)
    sections = "\n\n".join(f"## {number}\n\nparse a date {number}" for number in range(12))
    (folder / "dates.md").write_text(f"---\nyear: 2024\n---\n# Dates\n\n{sections}")
    (folder / "acme" / "markup.txt").write_text(MARKUP)
    (folder / "acme" / "words.md").write_text(f"---\nyear: 2020\n---\n# Words\n\n{'long' * 99}")
    (folder / "acme" / "arabic.md").write_text("# غلاية\n\nأزل الترسبات كل شهرين")
    index = documents_of(str(folder), models, metadata=["year"], cache=root)
    served, _ = endpoint(models, index=index)
    with served:
        yield served.url


@pytest.fixture
def ask(url):
    """Send a request of the page, with these headers in place of the page's own."""

    def ask(path, body=None, *, method="POST", **headers):
        sent = {"origin": url, **headers}
        return httpx2.request(method, url + path, json=body or {}, headers=sent, timeout=PATIENCE)

    return ask


def test_the_page_is_one_file_with_its_own_policy(url):
    """Its scripts and styles are those whose hashes the policy has, and nothing else is loaded."""
    response = httpx2.get(url)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    for tag in ("script", "style"):
        (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", response.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; connect-src 'self'; img-src data:;")
    assert not re.search(r"(src|href)=\"(?!#|data:)|innerHTML| on[a-z]+=", response.text)


def test_the_page_finds_what_the_signed_api_does(ask, url, signed):
    """It also lists the documents, the filters, and the chunks of a document in their order."""
    body = {"query": "parse a date", "mode": "hybrid", "top_k": 5}
    answer = httpx2.request(
        **signed(
            url + "/search", body=httpx2.Request("POST", url, json=body).content, credentials=LOCAL
        )
    )
    page = ask("/page/search", body).json()
    assert [{**result} for result in page["results"]] == answer.json()["results"]
    assert page["results"][0]["scores"].keys() == {"dense", "sparse", "fused", "rerank"}
    about = ask("/page/about").json()
    assert about["modes"] == ["dense", "sparse", "hybrid"]
    assert (about["mode"], about["reranks"]) == ("hybrid", True)
    assert about["filters"] == {"tenant": ["acme"], "year": [2020, 2024]}
    assert [entry["source"] for entry in about["documents"]] == [
        "acme/arabic.md",
        "acme/markup.txt",
        "acme/words.md",
        "dates.md",
    ]
    chunks = ask("/page/document", {"source": "dates.md"}).json()["chunks"]
    texts = [f"parse a date {number}" for number in range(12)]
    # This small model has no room for the heading of the page, which begins the text then.
    assert [chunk["text"] for chunk in chunks] == [f"Dates\n\n{texts[0]}", *texts[1:]]


def test_an_index_of_texts_has_no_documents(built):
    """Its entries are found by their numbers."""
    models, index = built
    served, _ = endpoint(models, index=index)
    with served:
        origin = {"origin": served.url}
        about = httpx2.post(f"{served.url}/page/about", headers=origin, json={}).json()
        assert (about["chunks"], about["documents"], about["filters"]) == (2, [], {})
        body = {"query": "parse", "top_k": 2}
        url = f"{served.url}/page/search"
        answer = httpx2.post(url, headers=origin, json=body, timeout=PATIENCE)
        entries = {result["id"]: result for result in answer.json()["results"]}
        assert {number: result["text"] for number, result in entries.items()} == {
            "0": "parse a date",
            "1": "hello",
        }
        assert entries["0"]["source"] is None


def test_a_signed_request_is_the_functions(url, signed):
    """Also of the page's own paths: the API beside the page is as without it."""
    for path, status in [("/", 405), ("/page/about", 404)]:
        sent = signed(url + path, method="GET", credentials=LOCAL)
        assert httpx2.request(**sent).status_code == status


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/", "GET", {"host": "localhost:9000"}, 200),
        ("/", "GET", {"host": "evil.example"}, 403),
        ("/", "GET", {"host": "127.0.0.1.evil.example:9000"}, 403),
        ("/", "GET", {"host": "127.0.0.1@evil.example"}, 403),
        ("/", "GET", {"host": "["}, 403),
        ("/", "POST", {}, 403),
        ("/health", "GET", {}, 403),
        ("/page/about", "POST", {}, 200),
        ("/page/about", "GET", {}, 403),
        ("/page/about", "POST", {"origin": "https://evil.example"}, 403),
        ("/page/about", "POST", {"origin": "null"}, 403),
        ("/page/about", "POST", {"origin": "http://127.0.0.1:1"}, 403),
        ("/page/about", "POST", {"host": "evil.example", "origin": "http://evil.example"}, 403),
        ("/page/about", "POST", {"host": "localhost:8080", "origin": "http://localhost:8080"}, 200),
        ("/page/other", "POST", {}, 404),
        ("/page/document", "POST", {}, 400),
        ("/page/search", "POST", {}, 400),
    ],
)
def test_foreign_sites_reach_nothing(ask, path, method, headers, status):
    """Neither by a name that points here nor from another site of the same browser."""
    response = ask(path, method=method, **headers)
    assert response.status_code == status
    assert "access-control-allow-origin" not in response.headers


def test_a_request_without_an_origin_is_no_page(url):
    """Browsers send one with each POST."""
    assert httpx2.post(f"{url}/page/about", json={}).status_code == 403


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_is_used_by_keyboard(url):
    """From a question to a chunk and back, at two widths and in both color schemes."""
    with browser() as page:
        page.open(url)
        page.wait("document.querySelectorAll('li.row').length === 4")
        page.write("parse a date 7")
        page.press("Enter")
        page.wait("document.querySelectorAll('.hit').length === 10")
        assert "10 results in" in page.value("document.getElementById('status').textContent")
        assert page.value("document.querySelector('.hit mark').textContent") == "parse"
        assert page.value("document.querySelectorAll('.hit:first-child dt').length") == 4

        page.press("Tab", "Tab", "Tab")  # the button, the mode, whether to rerank
        assert page.value("document.activeElement.name") == "rerank"
        page.press(" ")
        page.wait("document.querySelectorAll('.hit:first-child dt').length === 3")
        assert page.value("location.hash").endswith("rerank=no")

        page.press("/")
        assert page.value("document.activeElement.id") == "query"
        page.write("parse a date")
        page.press("Enter")
        page.wait("document.querySelector('.hit a').href.includes('q=parse+a+date&')")
        for _ in range(7):  # to the first source
            page.press("Tab")
        assert page.value("document.activeElement.textContent").endswith(".md")
        chunk = page.value("document.activeElement.id.slice(4)")
        page.press("Enter")
        page.wait(f"document.activeElement.id === 'chunk-{chunk}'")
        page.value("history.back()")
        page.wait(f"document.activeElement.id === 'hit-{chunk}'")

        page.open(f"{url}/#document=acme/markup.txt")
        page.wait("document.getElementById('main').textContent.includes('<img')")
        assert page.value("document.images.length + document.scripts.length") == 1
        assert page.value("document.title") == "acme/markup.txt"
        for address in ("", "#q=date", "#document=acme/words.md", "#document=acme/arabic.md"):
            page.open("about:blank")
            page.open(f"{url}/{address}")
            page.wait("document.getElementById('main').ariaBusy === 'false'")
            for width, scheme in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]:
                page.show(width=width, scheme=scheme)
                assert page.value("document.documentElement.scrollWidth <= innerWidth"), address
                back = page.value("getComputedStyle(document.body).backgroundColor")
                assert (max(map(int, re.findall(r"\d+", back))) < 64) == (scheme == "dark")
        assert page.problems == []


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_says_what_it_has_not(url):
    """No results with a way out, a refused request, and a program that has ended."""
    with browser() as page:
        page.open(f"{url}/#q=date&filter.tenant=%22acme%22&filter.year=2024")
        page.wait("document.body.innerText.includes('Nothing found. Search without filters')")
        page.open(f"{url}/#document=missing.md")
        page.wait("document.getElementById('status').className === 'wrong'")
        assert "no document of this name" in page.value(
            "document.getElementById('status').textContent"
        )
        page.value("window.fetch = () => Promise.reject(new TypeError())")
        page.press("/")
        page.write("date")
        page.press("Enter")
        page.wait("document.body.innerText.includes('Is scripts/serve still running?')")
