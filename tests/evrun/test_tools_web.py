import contextlib
import datetime as dt
import gzip
import json
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import ClassVar

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from evrun.effects import web as fetching
from evrun.errors import UsageFault
from evrun.tools.hosts import HostRules, is_public
from evrun.tools.html_text import html_to_text
from evrun.tools.web import web_toolset
from projections import tool_succeeded
from tests.evrun.boxes import SECRET, use
from tests.evrun.loopback import serving

PAGE = """<!doctype html><html><head><title> A  page </title><style>p {color: red}</style></head><body>
<h1>Head</h1><p>One &amp; <b>two</b>,<br>three &nbsp; four.</p><script>alert("no")</script>
<ul><li>first</li><li><a href="/next?a=1">second</a></li></ul><pre>  kept
    as it is</pre><table><tr><td>a</td><td>b</td></tr></table><a href="#top">up</a>
<a href="javascript:x()">no</a>
</body></html>"""


class Site(BaseHTTPRequestHandler):
    """Answers by path; `asked` is what came in."""

    answers: ClassVar[dict] = {}
    asked: ClassVar[list] = []

    def do_GET(self):
        """Answer, and remember what was asked."""
        self.asked.append((self.path, dict(self.headers)))
        status, headers, body = self.answers[self.path.partition("?")[0]]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def site():
    """A server on loopback: `answers` by path, `asked`, and its `place` (host:port)."""
    kind = type("OneSite", (Site,), {"answers": {}, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    kind.place = f"127.0.0.1:{server.server_address[1]}"
    yield kind
    server.shutdown()
    server.server_close()
    thread.join()


def fetch(tmp_path, url, allow=None, **more):
    """The tool's result for a page."""
    (tool,) = web_toolset(allow).tools
    return use(tool, tmp_path, url=url, **more)


def test_a_page_is_given_back_as_text_with_its_links(tmp_path, site):
    """Title, headings, lists, tables, code; scripts and styles are left out; links are whole addresses."""
    site.answers["/"] = (200, {"content-type": "text/html; charset=utf-8"}, PAGE.encode())
    result = fetch(tmp_path, f"http://{site.place}/", [site.place])
    text = result.pop("text")
    where = f"http://{site.place}/"
    assert result == {"url": where, "status": 200, "title": "A page", "truncated": False, "error": None}
    assert text == (
        f"# Head\n\nOne & two,\nthree four.\n\n- first\n- [second]({where}next?a=1)\n\n"
        "  kept\n    as it is\n\n| a | b\n\nup no"
    )


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("text/plain; charset=latin-1", "Zürich".encode("latin-1"), "Zürich"),
        ("text/html", '<meta charset="iso-8859-1">Zürich'.encode("latin-1"), "Zürich"),
        ("text/html; charset=nosuch", b"<p>ok", "ok"),
        ("", b"just text", "just text"),
        ("application/ld+json", b"[]", "[]"),
    ],
)
def test_other_texts_come_as_they_are(tmp_path, site, kind, body, text):
    """In the letters that the server or the page names, else in UTF-8."""
    site.answers["/"] = (200, {"content-type": kind} if kind else {}, body)
    result = fetch(tmp_path, f"http://{site.place}/", [site.place])
    assert (result["text"], result["error"]) == (text, None)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((404, {"content-type": "text/plain"}, b"gone"), "HTTP status 404"),
        (
            (200, {"content-type": "application/pdf"}, b"%PDF"),
            "application/pdf, which cannot be shown as text",
        ),
        ((200, {"content-type": "text/plain"}, b"a\0b"), "cannot be shown as text"),
        ((200, {"content-encoding": "zip", "content-type": "text/plain"}, b"x"), "which was not asked for"),
        ((200, {"content-encoding": "gzip", "content-type": "text/plain"}, b"no gzip"), "DecodingError"),
    ],
)
def test_what_is_no_page_is_an_error(tmp_path, site, answer, error):
    """And counts as a failure of the tool."""
    site.answers["/"] = answer
    result = fetch(tmp_path, f"http://{site.place}/", [site.place])
    assert error in result["error"]
    assert not tool_succeeded(json.dumps(result))


def test_a_packed_page_is_unpacked(tmp_path, site):
    """It was asked for so, and without anything that says who asks."""
    site.answers["/"] = (
        200,
        {"content-type": "text/plain", "content-encoding": "gzip"},
        gzip.compress(b"plain"),
    )
    assert fetch(tmp_path, f"http://{site.place}/", [site.place])["text"] == "plain"
    ((_, headers),) = site.asked
    assert "evrun/" in headers["user-agent"]
    assert not {"cookie", "authorization", "referer"} & {name.lower() for name in headers}


def test_a_large_page_is_cut_and_a_secret_in_it_replaced(tmp_path, site, monkeypatch):
    """It is read up to a limit, and shown at both ends like a command's output."""
    monkeypatch.setattr(fetching, "LARGEST_BODY", 100_000)
    body = f"begin {SECRET} ".encode() + b"x" * 200_000
    site.answers["/"] = (200, {"content-type": "text/plain"}, body)
    result = fetch(tmp_path, f"http://{site.place}/", [site.place])
    assert result["truncated"] is True
    assert result["text"].startswith("begin [redacted:KEY] xxx")
    assert "bytes left out" in result["text"]
    assert len(result["text"]) < 40_000


def test_redirects_are_followed_and_each_is_checked(tmp_path, site):
    """To another host that is allowed, never to one that is not, and not for ever."""
    port = site.place.partition(":")[2]
    site.answers["/a"] = (302, {"location": f"http://localhost:{port}/b"}, b"")
    site.answers["/b"] = (301, {"location": "/c"}, b"")
    site.answers["/c"] = (200, {"content-type": "text/plain"}, b"here")
    site.answers["/loop"] = (302, {"location": "/loop"}, b"")
    site.answers["/file"] = (302, {"location": "file:///etc/passwd"}, b"")
    url = f"http://{site.place}"
    both = fetch(tmp_path, f"{url}/a", [site.place, "localhost"])
    assert (both["url"], both["text"]) == (f"http://localhost:{port}/c", "here")
    assert [headers["host"] for _, headers in site.asked] == [
        site.place,
        f"localhost:{port}",
        f"localhost:{port}",
    ]
    assert "localhost" in fetch(tmp_path, f"{url}/a", [site.place])["error"]
    assert "more than 5 redirects" in fetch(tmp_path, f"{url}/loop", [site.place])["error"]
    assert "expected an address that begins with" in fetch(tmp_path, f"{url}/file", [site.place])["error"]


INSIDE = [
    "http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://2130706433:{port}/",
    "http://0x7f.1:{port}/", "http://[::1]:{port}/", "http://[::ffff:127.0.0.1]:{port}/",
    "http://0.0.0.0:{port}/", "http://10.0.0.1/", "http://192.168.1.1/", "http://169.254.169.254/latest/",
    "http://[fe80::1]/", "http://[fd00::1]/", "http://[64:ff9b::a00:1]/", "http://[2002:7f00:1::]/",
    "http://100.64.0.1/", "http://224.0.0.1/",
]  # fmt: skip


@pytest.mark.parametrize("url", INSIDE)
@pytest.mark.parametrize("allow", [None, ["*.example.org", "*.0.0.1", "*.1"]])
def test_addresses_that_are_not_public_are_not_asked(tmp_path, site, url, allow):
    """However they are written, and also where only a pattern names them."""
    site.answers["/"] = (200, {"content-type": "text/plain"}, b"inside")
    result = fetch(tmp_path, url.format(port=site.place.partition(":")[2]), allow)
    assert "no public address" in result["error"] or "is not among the hosts" in result["error"]
    assert site.asked == []


def test_a_name_that_stands_for_an_inner_address_is_refused_whatever_else_it_stands_for(
    tmp_path, monkeypatch
):
    """One look-up decides and the connection goes to what was looked at: no second answer can slip in."""
    seen = []

    def rebinding(host, port, **_):
        seen.append(host)
        return [(socket.AF_INET, 1, 6, "", (address, port)) for address in ("93.184.216.34", "127.0.0.1")]

    monkeypatch.setattr(fetching.socket, "getaddrinfo", rebinding)
    result = fetch(tmp_path, "http://example.org/")
    assert "example.org is at 127.0.0.1, which is no public address" in result["error"]
    assert seen == ["example.org"]


def test_the_connection_goes_to_the_address_that_was_checked(tmp_path, site, monkeypatch):
    """The name is looked up once; the server still sees the name that was asked for."""
    seen = []
    place = (site.place.partition(":")[0], int(site.place.partition(":")[2]))

    def once(host, port, **_):
        seen.append(host)
        assert len(seen) == 1
        return [(socket.AF_INET, 1, 6, "", place)]

    monkeypatch.setattr(fetching.socket, "getaddrinfo", once)
    site.answers["/"] = (200, {"content-type": "text/plain"}, b"ok")
    result = fetch(tmp_path, f"http://name.test:{place[1]}/", ["name.test"])
    assert (result["text"], result["url"]) == ("ok", f"http://name.test:{place[1]}/")
    assert site.asked[0][1]["host"] == f"name.test:{place[1]}"


@pytest.mark.parametrize(
    ("allow", "host", "port", "allowed"),
    [
        (None, "example.org", 443, True),
        ([], "example.org", 443, False),
        (["example.org"], "EXAMPLE.org.", 443, True),
        (["example.org"], "www.example.org", 443, False),
        (["*.example.org"], "a.b.example.org", 443, True),
        (["*.example.org"], "example.org", 443, False),
        (["*.example.org"], "badexample.org", 443, False),
        (["example.org:8443"], "example.org", 443, False),
        (["example.org:8443"], "example.org", 8443, True),
        (["[::1]:80"], "::1", 80, True),
    ],
)
def test_a_list_names_hosts_in_full_or_what_is_below_them(allow, host, port, allowed):
    """With a port only that one."""
    assert (HostRules(allow).refusal(host, port) is None) is allowed


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("::ffff:93.184.216.34", True),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::5db8:d822", True),
        ("64:ff9b::a00:1", False),
        ("2002:5db8:d822::1", True),
        ("2002:a00:1::1", False),
        ("2606:2800:220:1::1", True),
        ("fe80::1", False),
        ("ff0e::1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("0.0.0.0", False),
        ("100.64.0.1", False),
        ("198.18.0.1", False),
        ("::", False),
    ],
)
def test_an_address_is_public_or_not_whatever_it_is_wrapped_in(address, public):
    """An IPv4 address within an IPv6 one decides."""
    assert is_public(ip_address(address)) is public


@pytest.mark.parametrize(
    "entry", ["https://example.org", "*", "a b", "", "example.org:99999", "*.*.org", "a/b"]
)
def test_what_is_no_host_is_refused_before_a_run(entry):
    """With how one is written."""
    with pytest.raises(UsageFault, match="expected a host, ") as refused:
        web_toolset([entry])
    assert "--web-allow" in str(refused.value)


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "example.org", "", "http://", "http://[", "javascript:1"]
)
def test_what_is_no_web_address_is_an_error(tmp_path, url):
    """In words for the model."""
    assert fetch(tmp_path, url)["error"]


def test_a_user_name_in_an_address_is_refused(tmp_path):
    """It would be sent to whoever the page is."""
    assert "user name" in fetch(tmp_path, "http://me:secret@example.org/")["error"]


def test_a_server_that_never_answers_is_left_at_the_prompts_deadline(tmp_path):
    """What is left of the attempt's time bounds the fetch."""

    async def hang(reader, writer, came):
        await reader.read()

    async def ask():
        async with serving(hang) as (url, _):
            host = url.removeprefix("http://").removesuffix("/v1")
            return await anyio.to_thread.run_sync(lambda: fetch(tmp_path, url, [host], timeout_s=0.3))

    assert "not done within 0.3 s" in anyio.run(ask)["error"]


def test_a_certificate_is_held_against_the_name_and_not_the_address(tmp_path, monkeypatch):
    """Though the connection is to an address: the right name works, another one and a stranger's do not."""
    certificate = certificate_for("name.test", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def answer(reader, writer, came):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()

    async def ask(name):
        async with serving(answer, ssl=context) as (url, _):
            port = int(url.rpartition(":")[2].removesuffix("/v1"))
            place = [(socket.AF_INET, 1, 6, "", ("127.0.0.1", port))]
            monkeypatch.setattr(fetching.socket, "getaddrinfo", lambda *_, **__: place)
            page = f"https://{name}:{port}/"
            return await anyio.to_thread.run_sync(lambda: fetch(tmp_path, page, [name]))

    stranger = anyio.run(ask, "name.test")
    monkeypatch.setattr(fetching, "_tls", lambda: ssl.create_default_context(cafile=certificate))
    assert "CERTIFICATE_VERIFY_FAILED" in stranger["error"]
    assert anyio.run(ask, "name.test")["text"] == "ok"
    assert "CERTIFICATE_VERIFY_FAILED" in anyio.run(ask, "other.test")["error"]


def certificate_for(name, directory):
    """A file with a certificate of a name that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    key_text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain
    )
    path = directory / "certificate.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key_text)
    return path


@pytest.mark.parametrize(
    "html", ["<", "<a href='x'", "</div></p></a>", "<pre><pre></pre>", "<p>" * 5000, "\0<b>"]
)
def test_broken_html_is_text_all_the_same(html):
    """Nothing that a page says can fail the reader."""
    title, text = html_to_text(html, "http://example.org/")
    assert title is None
    assert isinstance(text, str)
