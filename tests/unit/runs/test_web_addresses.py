"""Which addresses of the web may be asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.model import web
from agent_memory.kernel.errors import ToolFailed


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255"),  # noqa: S104
        *("192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1"),
        *("198.18.0.1", "198.51.100.1", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1"),
        *("255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1"),
        *("::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1"),
        *("2002:7f00:1::", "2002:808:808::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
        *("2001:db8::1", "2001:10::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1"),
        *("fe80::1%eth0", "fec0::1", "ff02::1", "5f00::1", "localhost", "", "1.2.3", "0x7f000001"),
    ],
)
def test_what_is_not_surely_public_is_private(address: str) -> None:
    assert not web.is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8", "2a00:1450::1"]
)
def test_machines_of_the_internet_are_public(address: str) -> None:
    assert web.is_public(address)


@given(st.ip_addresses())
def test_what_the_standard_library_holds_for_private_is_so_here(address: object) -> None:
    for unlike in ("is_private", "is_loopback", "is_link_local", "is_multicast", "is_reserved"):
        if getattr(address, unlike):
            assert not web.is_public(str(address)) or "ffff" in str(address)


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("http://example.org", "http://example.org/"),
        ("HTTPS://Example.ORG./a?b=c#d", "https://example.org/a?b=c"),
        ("https://example.org:443/", "https://example.org/"),
        ("http://example.org:8080/x", "http://example.org:8080/x"),
        ("http://[2606:2800:220:1::1]/", "http://[2606:2800:220:1::1]/"),
        ("https://münchen.example/ä?ö=ü", "https://xn--mnchen-3ya.example/%C3%A4?%C3%B6=%C3%BC"),
        (" https://example.org/a%20b ", "https://example.org/a%20b"),
    ],
)
def test_a_url_is_told_as_it_will_be_asked(url: str, meant: str) -> None:
    assert web.parse_target(url).url == meant


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///etc/passwd", "must begin with http"),
        ("ftp://example.org/", "must begin with http"),
        ("gopher://example.org/", "must begin with http"),
        ("example.org", "must begin with http"),
        ("javascript:alert(1)", "must begin with http"),
        ("http://user:pass@example.org/", "user or a password"),
        ("http://user@example.org/", "user or a password"),
        ("http://@example.org/", "user or a password"),
        ("http://", "has no host"),
        ("http:///path", "has no host"),
        ("http://a b/", "blanks"),
        ("http://example.org\\@evil.example/", "backslashes"),
        ("http://example.org/\r\nHost: evil", "unprintable characters"),
        ("http://example.org/\x00", "unprintable characters"),
        ("http://example.org:22/", "port 22"),
        ("http://example.org:25/", "port 25"),
        ("http://example.org:6379/", "port 6379"),
        ("http://example.org:99999/", "the URL is invalid"),
        ("http://example.org:x/", "the URL is invalid"),
        ("http://[::1/", "the URL is invalid"),
        ("http://[fe80::1%25eth0]/", "link|not a valid address|invalid"),
        ("http://exa<mple.org/", "not a valid name"),
        ("http://" + "a" * 3_000, "more than 2,000"),
    ],
)
def test_what_is_no_page_is_refused(url: str, said: str) -> None:
    with pytest.raises(ToolFailed, match=said):
        web.parse_target(url)


def test_hosts_are_listed_by_name_or_with_a_port() -> None:
    private = ["localhost:3000", "Wiki.internal", "[::1]:80", "10.0.0.1"]
    for url, listed in (
        ("http://localhost:3000/", True),
        ("http://LOCALHOST.:3000/", True),
        ("http://localhost:3001/", False),
        ("http://localhost/", False),
        ("http://wiki.internal:8443/", True),
        ("http://not-wiki.internal/", False),
        ("http://[::1]/", True),
        ("http://[::1]:8080/", False),
        ("http://10.0.0.1:22/", True),
        ("http://10.0.0.11/", False),
    ):
        assert web.parse_target(url, private).listed is listed


@given(st.text(max_size=60))
def test_no_text_does_anything_but_fail_in_words(text: str) -> None:
    for url in (text, f"http://{text}", f"https://example.org/{text}"):
        try:
            target = web.parse_target(url)
        except ToolFailed:
            continue
        assert target.url.isascii()
        assert target.url.isprintable()
        assert " " not in target.url
