"""Pages in a real browser: they load nothing from outside, filter, sort, fit a phone, and can be used without seeing them."""

import itertools
import os
from pathlib import Path

import browser
import pytest
from bundles import unpacked

from programs.cli import run
from reports import charts
from reports.__main__ import main

RECORDED = "docs/results/smoke.parquet"
pytestmark = [
    pytest.mark.long(why="a real browser draws pages"),
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
  for (const e of document.querySelectorAll("body *:not(svg *):not(.chart *)")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    if (e.tagName === "OPTION" || e.tagName === "SCRIPT") continue;
    const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) low.push(`${e.tagName} ${e.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return low;
})()
"""


AXE = os.environ.get("AXE_CORE")
"""Path of `axe.min.js`, a file of the npm package axe-core."""
PAGES = ("index.html", "claims.html", "how.html", "pages/cartpole-ppo-zoo.html")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("browser") / "report"
    assert run("tianji-report", main, ["build", str(unpacked(RECORDED)), "--out", str(out)]) == 0
    return out


@pytest.fixture
def opened(tmp_path):
    binary = browser.found()
    assert binary is not None
    with browser.Browser(binary, tmp_path / "profile") as started:
        yield started


@pytest.fixture
def page(report, opened):
    show(opened, report / "index.html")
    return opened


def show(opened, file, width=1280, scheme="light"):
    opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    opened.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    opened.open(file)


def choose(page, name, value):
    page.run(
        f"(s => {{ s.value = {value!r}; s.dispatchEvent(new Event('change', {{ bubbles: true }})); }})"
        f"(document.querySelector('select[name={name}]'))"
    )


def test_pages_say_nothing_to_the_console_and_ask_for_files_of_the_report_alone(report, opened):
    for name in PAGES:
        show(opened, report / name)
        assert opened.complaints() == []
        asked = opened.requests()
        assert all(address.startswith(report.as_uri()) for address in asked)
        drawn = any(charts.LIBRARY in address for address in asked)
        assert drawn is (name.startswith("pages/") and charts.library() is not None), "loaded where something is drawn"


ROWS = "[...document.querySelectorAll('#shown tbody tr')].map(r => [...r.cells].map(c => c.innerText))"


def test_bars_are_on_the_first_screen_then_the_verdict_then_losses(page, tmp_path):
    headings = page.run("[...document.querySelectorAll('h1, h2')].map(h => h.textContent)")
    assert headings[1:5] == ["What a return costs", "Verdict", "Where TianJi loses", "Limits"]
    assert page.run("document.getElementById('bars').getBoundingClientRect().bottom") < 900
    picture = tmp_path / "page.png"
    page.picture(picture)
    assert picture.stat().st_size > 20_000, "an empty page compresses to less"


def test_bars_are_sorted_and_as_long_as_their_numbers(page):
    rows = page.run(ROWS)
    assert len(rows) >= 4
    costs = [float(cost) for _, cost, *_ in rows if cost != "-"]
    assert costs == sorted(costs)
    widths = page.run("[...document.querySelectorAll('#shown .bar')].map(b => b.getBoundingClientRect().width)")
    assert [width / widths[0] for width in widths] == pytest.approx([cost / costs[0] for cost in costs], rel=0.02)
    assert page.run("document.querySelectorAll('#shown .bar.ours').length") == 1
    assert all(any(letter.isdigit() for letter in cost + runs) for _, cost, _, _, runs, _ in rows), (
        "nothing is told by colour alone"
    )


def test_choices_stand_in_the_address_and_are_read_from_it(page):
    before = page.run(ROWS)
    choose(page, "cost", "steps")
    assert page.run("location.hash") == "#cost=steps"
    assert page.run(ROWS) != before
    choose(page, "workload", "cartpole-dqn-zoo")
    assert page.run("document.getElementById('what').textContent").startswith("cartpole-dqn-zoo on ")
    page.run("location.hash = '#workload=cartpole-ppo-zoo&kind=evaluated'")
    page.until("document.getElementById('what').textContent.includes('seconds to the evaluated return')")
    assert page.run("document.querySelector('select[name=kind]').value") == "evaluated"
    page.run("location.hash = '#workload=nothing'")
    page.until("document.querySelector('select[name=workload]').value === 'cartpole-ppo-zoo'")


def test_any_system_can_be_the_reference(page):
    for row in range(2):
        chosen = page.run("[...document.querySelector('select[name=reference]').options].map(o => [o.value, o.text])")[row]
        choose(page, "reference", chosen[0])
        (own,) = [line for line in page.run(ROWS) if line[0] == chosen[1]]
        assert own[-1] == "1x"


def test_tables_sort_by_number_up_and_down(report, opened):
    show(opened, report / "pages" / "cartpole-ppo-zoo.html")
    sort = """
    (() => {
      const named = table => [...table.tHead.rows[0].cells].some(c => c.textContent === 'Seconds, training');
      const table = [...document.querySelectorAll('table')].find(named);
      const place = [...table.tHead.rows[0].cells].findIndex(c => c.textContent === 'Seconds, training');
      table.tHead.rows[0].cells[place].querySelector('button').click();
      const said = table.tHead.rows[0].cells[place].getAttribute('aria-sort');
      return [[...table.tBodies[0].rows].map(r => r.cells[place].textContent), said];
    })()
    """
    for direction in ("ascending", "descending"):
        cells, said = opened.run(sort)
        numbers = [float(cell.split()[0].replace(",", "")) for cell in cells if cell[0].isdigit()]
        assert said == direction
        assert numbers == sorted(numbers, reverse=direction == "descending")
        assert len(numbers) > 2


def test_pages_fit_a_screen_and_a_phone(report, opened):
    wide = "[...document.querySelectorAll('.wide')].filter(w => w.scrollWidth > w.clientWidth + 1).map(w => w.ariaLabel)"
    first = "[...document.querySelectorAll('tbody tr > :first-child')].every(c => getComputedStyle(c).position === 'sticky')"
    for name in PAGES:
        show(opened, report / name)
        assert opened.run(wide) == [], "no table is wider than the screen"
        show(opened, report / name, 390)
        assert opened.run("document.documentElement.scrollWidth <= innerWidth"), "only tables scroll sideways"
        assert opened.run(first), "the first column stays"


def test_dark_mode_follows_the_system_and_a_button(report, opened):
    behind = "getComputedStyle(document.body).backgroundColor"
    show(opened, report / "index.html", scheme="light")
    light = opened.run(behind)
    show(opened, report / "index.html", scheme="dark")
    dark = opened.run(behind)
    assert light != dark
    opened.run("document.getElementById('theme').click()")
    assert opened.run(behind) == light
    assert opened.run("document.getElementById('theme').textContent") == "Dark mode"
    opened.run("document.getElementById('theme').click(); localStorage.removeItem('theme')")
    assert opened.run(behind) == dark


needs_library = pytest.mark.skipif(charts.library() is None, reason="needs the package plotly (extra report)")


@needs_library
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_diagrams_are_drawn_within_the_page_and_a_reader_chooses_among_them(report, opened, width, scheme):
    show(opened, report / "pages" / "cartpole-ppo-zoo.html", width, scheme)
    opened.until("document.querySelectorAll('.chart .main-svg').length >= 6")
    assert opened.run("document.querySelectorAll('.chart').length") == 3
    assert opened.run("document.documentElement.scrollWidth <= innerWidth")
    lines = "document.querySelectorAll('.chart')[0].querySelectorAll('.scatterlayer .trace').length"
    assert opened.run(lines) > 10
    opened.run(
        "(s => { s.value = '3'; s.dispatchEvent(new Event('change')); })(document.querySelector('.chart').parentElement."
        "querySelector('select'))"
    )
    opened.until("document.querySelector('.chart').ariaLabel === 'evaluated return over steps'")
    assert opened.complaints() == []
    assert all(
        address.startswith(report.as_uri()) for address in opened.requests() if not address.startswith(("data:", "blob:"))
    )


@needs_library
def test_diagrams_follow_the_mode(report, opened):
    show(opened, report / "pages" / "cartpole-ppo-zoo.html")
    opened.until("document.querySelectorAll('.chart .xtitle').length >= 3")
    ink = "document.querySelector('.chart .xtitle').style.fill"
    light = opened.run(ink)
    opened.run("document.getElementById('theme').click()")
    opened.until(f"{ink} !== {light!r}")
    assert opened.complaints() == []
    opened.run("document.getElementById('theme').click(); localStorage.removeItem('theme')")


def test_a_copy_without_the_library_says_so(report, opened, tmp_path):
    page = report / "pages" / "cartpole-ppo-zoo.html"
    (tmp_path / "pages").mkdir()
    (tmp_path / "charts").mkdir()
    (tmp_path / "pages" / page.name).write_text(page.read_text())
    data = report / "charts" / "cartpole-ppo-zoo.js"
    (tmp_path / "charts" / data.name).write_text(data.read_text())
    show(opened, tmp_path / "pages" / page.name)
    opened.until("!document.getElementById('charts-said').hidden")
    assert "has no charts" in opened.run("document.getElementById('charts-said').innerText")


def test_no_page_is_large(report):
    for page in report.rglob("*.html"):
        data = report / "charts" / f"{page.stem}.js"
        assert page.stat().st_size + (data.stat().st_size if data.exists() else 0) < 300_000, page.name


def test_pages_can_be_used_without_seeing_them(report, opened):
    for name, scheme in itertools.product(PAGES, ("light", "dark")):
        show(opened, report / name, scheme=scheme)
        tree = opened.call("Accessibility.getFullAXTree")["nodes"]
        roles = [node["role"]["value"] for node in tree if not node["ignored"]]
        for landmark in ("banner", "main", "navigation", "contentinfo"):
            assert landmark in roles, landmark
        pictures = opened.run("[...document.querySelectorAll('.chart')].map(s => [s.role, s.ariaLabel])")
        assert bool(pictures) == name.startswith("pages/")
        assert all(role == "img" and words for role, words in pictures), "the tables have the numbers"
        assert opened.run("[...document.querySelectorAll('select')].every(s => s.labels.length === 1)")
        assert opened.run("[...document.querySelectorAll('th')].every(t => t.scope)")
        assert opened.run("document.documentElement.lang") == "en"
        levels = opened.run("[...document.querySelectorAll('h1, h2, h3, h4')].map(h => Number(h.tagName[1]))")
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), "no level is left out"
        assert opened.run(CONTRAST) == []


@pytest.mark.skipif(AXE is None, reason="needs AXE_CORE, the path of axe.min.js (npm's package axe-core)")
def test_axe_finds_nothing(report, opened):
    for name, scheme in itertools.product(PAGES, ("light", "dark")):
        show(opened, report / name, scheme=scheme)
        opened.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        opened.run(Path(AXE).read_text() + ";0")
        ask = "axe.run().then(found => found.violations.map(one => one.id))"
        said = opened.call("Runtime.evaluate", expression=ask, awaitPromise=True, returnByValue=True)
        assert said["result"]["value"] == []
