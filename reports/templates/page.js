"use strict";
// Dark mode: the reader's choice is kept; without one the system's setting holds.
const theme = document.getElementById("theme"), root = document.documentElement;
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const named = () => { theme.textContent = dark() ? "Light mode" : "Dark mode"; };
theme.hidden = false;
named();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", named);
theme.addEventListener("click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* A browser may keep nothing. */ }
  named();
});

// Tables sort by the first number of a cell, without the sign of a bound and without thousands separators.
const numberOf = text => { const found = text.replace(/,/g, "").match(/-?\d+(\.\d+)?/); return found ? parseFloat(found[0]) : null; };
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (!body || !table.tHead) continue;
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    while (head.firstChild) button.append(head.firstChild);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map(row => ({ row, text: row.cells[place].textContent.trim() }));
      const known = rows.filter(({ text }) => numberOf(text) !== null);
      const numeric = known.length * 2 > rows.filter(({ text }) => text !== "").length && known.every(({ text }) => /^[-<>\d(]/.test(text));
      const way = down ? -1 : 1;
      rows.sort((a, b) => {
        if (!numeric) return way * a.text.localeCompare(b.text);
        const [x, y] = [numberOf(a.text), numberOf(b.text)];
        // A cell without a number stands last, either way.
        return x === null ? (y === null ? 0 : 1) : y === null ? -1 : way * (x - y);
      });
      for (const { row } of rows) body.append(row);
    });
  });
}

// The first page's bars: choices stand in the address, #workload=acrobot-ppo&cost=steps.
const source = document.getElementById("costs");
if (source) {
  const choices = JSON.parse(source.textContent), filters = document.querySelector(".filters"), body = document.getElementById("shown").tBodies[0];
  const named = { options: value => value === "" ? "closed" : value.includes("tuned") ? "open, tuned" : value }, keys = ["workload", "machine", "options", "kind"];
  const short = value => value === null ? "-" : value >= 100 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)).toString();
  const fill = (select, values, ...wanted) => {
    select.replaceChildren(...values.map(([value, text]) => new Option(text, value)));
    const found = wanted.find(one => values.some(([value]) => value === one));
    if (found !== undefined) select.value = found;
  };
  const asked = () => new URLSearchParams(location.hash.slice(1));
  const apply = () => {
    const want = asked();
    let left = choices;
    for (const key of keys) {
      const values = [...new Set(left.map(one => one[key]))];
      if (key === "kind") values.sort().reverse();
      const usual = key === "workload" ? body.dataset.first : values[0];
      fill(filters.elements[key], values.map(value => [value, (named[key] ?? String)(value)]), want.get(key), usual);
      left = left.filter(one => one[key] === filters.elements[key].value);
    }
    filters.elements.cost.value = want.get("cost") ?? "seconds";
    const [choice] = left, cost = filters.elements.cost.value, value = bar => bar.costs[cost][0];
    const bars = [...choice.bars].sort((a, b) => (value(a) ?? Infinity) - (value(b) ?? Infinity));
    fill(filters.elements.reference, bars.map(bar => [bar.system, bar.title]), want.get("reference"), "tianji");
    const reference = value(bars.find(bar => bar.system === filters.elements.reference.value));
    // An interval may end beyond: one of few successes is wide.
    const most = 1.05 * Math.max(...bars.map(bar => value(bar) ?? 0));
    const cell = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
    body.replaceChildren(...bars.map(bar => {
      const row = document.createElement("tr"), head = cell("th", bar.title), drawn = cell("td", ""), [known, low, high] = bar.costs[cost];
      head.scope = "row";
      if (known !== null) {
        const length = document.createElement("span");
        length.className = `bar${bar.system === "tianji" ? " ours" : bar.system === "tianji-relaxed" ? " relaxed" : ""}`;
        length.style.width = `${100 * known / most}%`;
        drawn.append(length);
        if (low !== null) {
          const interval = document.createElement("span");
          interval.className = "interval";
          interval.style.left = `${100 * low / most}%`;
          interval.style.width = `${100 * (high - low) / most}%`;
          drawn.append(interval);
        }
      }
      drawn.className = "drawn";
      const counted = bar.reached === bar.runs ? `${bar.runs}` : `${bar.reached}/${bar.runs}`;
      row.append(head, cell("td", short(known)), drawn, cell("td", low === null ? "-" : `${short(low)} to ${short(high)}`), cell("td", counted), cell("td", known === null || !reference ? "-" : `${short(known / reference)}x`));
      return row;
    }));
    document.getElementById("what").textContent = `${choice.workload} on ${choice.machine}: ${cost.replace("_", "-")} to the ${choice.kind} return.`;
  };
  body.dataset.first = source.dataset.first;
  filters.addEventListener("change", event => {
    const want = asked();
    want.set(event.target.name, event.target.value);
    if (event.target.name === "workload") for (const key of ["machine", "options", "kind", "reference"]) want.delete(key);
    history.replaceState(null, "", `#${want}`);
    apply();
  });
  addEventListener("hashchange", apply);
  filters.addEventListener("submit", event => event.preventDefault());
  filters.hidden = false;
  apply();
}
