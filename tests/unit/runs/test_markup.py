"""HTML as text."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.model import markup

PAGE = """<!doctype html><html><head><title>The  page</title><style>p {color: red}</style>
<script>if (a < b) { alert("no") }</script></head><body><nav><a href="/home">Home</a></nav>
<h1>Head &amp; line</h1><p>Some <b>bold</b>
text, and a <a href="../other?x=1#y">link</a> and <a href="#top">none</a>.</p>
<ul><li>one</li><li>two</li></ul>
<pre>def f():
    return 1
</pre><table><tr><td>a</td><td>b</td></tr></table><svg><text>drawn</text></svg>
<a href="javascript:alert(1)">do</a><p>end</body></html>"""


def test_a_page_reads_as_its_reader_sees_it() -> None:
    told = markup.render_text(PAGE, "https://example.org/docs/page")
    assert told == (
        "The page\n\nHome (https://example.org/home)\n\n# Head & line\n\nSome bold text, and a link"
        " (https://example.org/other?x=1#y) and none.\n\n- one\n- two\n\ndef f():\n    return 1\n\n"
        "| a | b\n\ndo\n\nend"
    )


@given(st.text(alphabet="<>/!-&;abp \n=\"'", max_size=200))
def test_whatever_it_is_there_is_a_text(page: str) -> None:
    markup.render_text(page, "http://example.org/")
    markup.render_text(f"<p>{page}<a href='{page}'>x</a>", "http://example.org/")
