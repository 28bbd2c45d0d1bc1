"""The page in a real browser: it renders, asks for nothing, filters, sorts, and can be used without seeing it."""

import browser
import pytest
from bundles import unpacked

from programs.cli import run
from reports.__main__ import main

RECORDED = unpacked("docs/results/smoke.parquet")
pytestmark = [
    pytest.mark.skipif(browser.found() is None, reason="needs Chromium (Debian's package chromium)"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
CONTRAST = """
(() => {
  const light = ([r, g, b]) => { const f = c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
    return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parts(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const e of document.querySelectorAll("body *:not(svg *)")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    if (e.tagName === "OPTION" || e.tagName === "SCRIPT") continue;
    const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) low.push(`${e.tagName} ${e.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return low;
})()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("browser") / "report"
    assert run("tianji-report", main, ["build", str(RECORDED), "--out", str(out), "--svg"]) == 0
    return out


@pytest.fixture
def page(report, tmp_path):
    binary = browser.found()
    assert binary is not None
    with browser.Browser(binary, tmp_path / "profile") as opened:
        opened.open(report / "index.html")
        yield opened


def test_it_renders_says_nothing_to_the_console_and_asks_for_nothing(page, tmp_path):
    assert page.complaints() == []
    assert [address for address in page.requests() if not address.startswith("file://")] == []
    assert len(page.requests()) == 1
    assert page.run("document.querySelectorAll('figure svg').length") >= 6
    assert page.run("[...document.querySelectorAll('figure svg')].every(s => s.getBoundingClientRect().width > 300)")
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "only tables scroll sideways"
    picture = tmp_path / "page.png"
    page.picture(picture)
    assert picture.stat().st_size > 20_000, "an empty page compresses to less"


def test_the_verdict_comes_first_then_claims(page):
    headings = page.run("[...document.querySelectorAll('h1, h2')].map(h => h.textContent)")
    assert headings[1:3] == ["Verdict", "Published claims"]
    top = page.run("document.getElementById('verdict').getBoundingClientRect().top")
    assert top < 400, "it is seen without scrolling"


def test_filters_hide_what_was_not_asked_for(page):
    choose = "(id, value) => { const s = document.getElementById(id); s.value = value; s.dispatchEvent(new Event('change')); }"
    seen = "[...document.querySelectorAll('section.workload')].filter(s => !s.hidden).map(s => s.id)"
    every = page.run(seen)
    assert len(every) >= 2
    page.run(f"({choose})('of-workload', {every[0]!r})")
    assert page.run(seen) == every[:1]
    assert page.run("document.getElementById('shown').textContent") == "1 workload shown"
    page.run(f"({choose})('of-workload', '')")
    page.run(f"({choose})('of-system', 'RLlib')")
    rows = page.run(
        "[...document.querySelectorAll('section.workload tbody tr')].filter(r => r.offsetParent).map(r => r.textContent)"
    )
    assert rows
    assert sum("RLlib" in row for row in rows) >= len(rows) / 2
    page.run(f"({choose})('of-system', '')")
    assert page.run(seen) == every


def test_contents_lead_to_what_a_filter_has_hidden(page):
    first, second = page.run("[...document.querySelectorAll('section.workload')].map(s => s.id)")[:2]
    choose = f"(s => {{ s.value = {first!r}; s.dispatchEvent(new Event('change')); }})(document.getElementById('of-workload'))"
    page.run(choose)
    assert page.run(f"document.getElementById({second!r}).hidden")
    page.run("document.querySelector('header details').open = true")
    page.run(f"document.querySelector('header a[href=\"#{second}\"]').click()")
    page.until(f"!document.getElementById({second!r}).hidden")
    top = f"document.getElementById({second!r}).getBoundingClientRect().top"
    below = "document.querySelector('nav.filters').getBoundingClientRect().bottom"
    page.until(f"{top} < innerHeight / 2")
    assert page.run(f"document.getElementById('{second}-title').getBoundingClientRect().top >= {below} - 1"), "the bar hides it"
    assert page.run("document.getElementById('of-workload').value") == ""


def test_the_verdict_has_a_state_in_words_for_every_peer_and_workload(page):
    rows = page.run("[...document.querySelectorAll('.matrix tbody tr')].map(r => [...r.cells].map(c => c.innerText))")
    assert len(rows) >= 3
    states = {"faster", "slower", "bound", "open"}
    for _, *cells in rows:
        assert all(states & set(cell.split()) for cell in cells if cell != "-")
    assert page.run("[...document.querySelectorAll('.matrix tbody th')].every(t => t.scope === 'row')")


def test_tables_sort_by_number_up_and_down(page):
    sort = """
    (() => {
      const named = table => [...table.tHead.rows[0].cells].some(c => c.textContent === 'Seconds');
      const table = [...document.querySelectorAll('section.workload table')].find(named);
      const place = [...table.tHead.rows[0].cells].findIndex(c => c.textContent === 'Seconds');
      table.tHead.rows[0].cells[place].querySelector('button').click();
      const said = table.tHead.rows[0].cells[place].getAttribute('aria-sort');
      return [[...table.tBodies[0].rows].map(r => r.cells[place].textContent), said];
    })()
    """
    for direction in ("ascending", "descending"):
        cells, said = page.run(sort)
        numbers = [float(cell.split()[0].replace(",", "")) for cell in cells if cell[0].isdigit()]
        assert said == direction
        assert numbers == sorted(numbers, reverse=direction == "descending")
        assert len(numbers) > 2


def test_it_can_be_used_without_seeing_it(page):
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in tree if not node["ignored"]]
    for landmark in ("banner", "main", "navigation", "contentinfo"):
        assert landmark in roles, landmark
    pictures = page.run(
        "[...document.querySelectorAll('figure svg')].map(s => [s.getAttribute('role'), s.getAttribute('aria-label') || ''])"
    )
    assert all(role == "img" for role, _ in pictures)
    assert all(any(c.isdigit() for c in words) for _, words in pictures), "an alternative text states what was found"
    assert page.run("[...document.querySelectorAll('select')].every(s => s.labels.length === 1)")
    assert page.run("[...document.querySelectorAll('th')].every(t => t.scope)")
    assert page.run("document.documentElement.lang") == "en"
    assert page.run(CONTRAST) == []
