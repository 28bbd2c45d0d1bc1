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
const keyOf = cell => {
  const own = cell.querySelector("[data-sort]:not([hidden])") ?? cell;
  return (own.dataset.sort ?? own.textContent).trim();
};
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
      const rows = [...body.rows].map(row => ({ row, text: keyOf(row.cells[place]) }));
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

// The grid's filters stand in the address: #suite=scaling&machine=...
const filters = document.querySelector(".filters");
if (filters) {
  const chosen = () => Object.fromEntries([...filters.elements].map(one => [one.name, one.value]));
  const first = chosen();
  const apply = () => {
    const want = chosen();
    let cells = 0;
    for (const grid of document.querySelectorAll("div.grid")) {
      for (const one of grid.querySelectorAll("[data-algorithm]")) one.hidden = Boolean(want.algorithm) && one.dataset.algorithm !== want.algorithm;
      for (const one of grid.querySelectorAll(".cell")) one.hidden = one.dataset.kind !== "" && (one.dataset.kind !== want.kind || one.dataset.cost !== want.cost);
      const empty = !grid.querySelector("thead [data-algorithm]:not([hidden])");
      grid.hidden = empty || Boolean(want.suite) && grid.dataset.suite !== want.suite || Boolean(want.machine) && grid.dataset.machine !== want.machine;
      if (!grid.hidden) cells += grid.querySelectorAll("td:not([hidden]) .cell:not([hidden])").length;
    }
    document.getElementById("shown").textContent = `${cells} cell${cells === 1 ? "" : "s"} shown`;
  };
  const read = () => {
    if (!location.hash.includes("=")) return;
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const one of filters.elements) {
      const value = asked.get(one.name) ?? first[one.name];
      if ([...one.options].some(option => option.value === value)) one.value = value;
    }
  };
  filters.addEventListener("change", () => {
    const want = Object.entries(chosen()).filter(([name, value]) => value !== first[name]);
    history.replaceState(null, "", want.length ? `#${new URLSearchParams(want)}` : "#grid=all");
    apply();
  });
  addEventListener("hashchange", () => { read(); apply(); });
  filters.addEventListener("submit", event => event.preventDefault());
  filters.hidden = false;
  read();
  apply();
}
