"use strict";
// Numbers of a cell: the first in its text, signs of bounds and thousands left out.
const numberOf = text => { const found = text.replace(/,/g, "").match(/-?\d+(\.\d+)?/); return found ? parseFloat(found[0]) : null; };
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (!body || !table.tHead) continue;
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    head.scope = "col";
    const button = document.createElement("button");
    button.type = "button";
    while (head.firstChild) button.append(head.firstChild);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map(row => ({ row, text: (row.cells[place].dataset.sort ?? row.cells[place].textContent).trim() }));
      const numeric = rows.filter(({ text }) => numberOf(text) !== null).length * 2 > rows.length && rows.every(({ text }) => /^[-<>\d(]/.test(text) || text === "");
      rows.sort((a, b) => {
        if (!numeric) return a.text.localeCompare(b.text);
        const [x, y] = [numberOf(a.text), numberOf(b.text)];
        return x === null ? (y === null ? 0 : 1) : y === null ? -1 : x - y;
      });
      if (down) rows.reverse();
      for (const { row } of rows) body.append(row);
    });
  });
}
const workload = document.getElementById("of-workload"), system = document.getElementById("of-system"), shown = document.getElementById("shown");
const NAMES = ["System", "Faster", "than", "First", "Second", "against"];
function filter() {
  let sections = 0;
  for (const section of document.querySelectorAll("section.workload")) {
    section.hidden = workload.value !== "" && section.dataset.workload !== workload.value;
    sections += !section.hidden;
    for (const table of section.querySelectorAll("table")) {
      const places = [...table.tHead.rows[0].cells].flatMap((cell, place) => NAMES.includes(cell.textContent.trim()) ? [place] : []);
      for (const row of table.tBodies[0].rows)
        row.hidden = system.value !== "" && places.length > 0 && !places.some(place => row.cells[place].textContent.trim() === system.value);
    }
  }
  shown.textContent = workload.value || system.value ? `${sections} workload${sections === 1 ? "" : "s"} shown` : "";
}
workload.addEventListener("change", filter);
system.addEventListener("change", filter);
// What a link leads to may have been hidden by the choice of a workload.
addEventListener("hashchange", () => {
  const target = document.getElementById(location.hash.slice(1));
  if (!target || !target.closest("section[hidden]")) return;
  workload.value = "";
  filter();
  target.scrollIntoView();
});
filter();
