"use strict";
// Diagrams of a page: a data file beside it calls `charts` with the panels of each group.
{
  const said = document.getElementById("charts-said"), places = [...document.querySelectorAll(".chart")];
  const axis = ({ title, log }, ink) => ({ title: { text: title }, type: log ? "log" : "linear", automargin: true, gridcolor: ink + "22", zeroline: false });
  // Intervals are a band around a line, and strokes at marks and bars.
  const traces = (given, kind, named, ink) => {
    const one = given.colour === "#111111" ? { ...given, colour: ink } : given;
    const told = one.legend && !named.has(one.name);
    if (told) named.add(one.name);
    const base = { name: one.name, legendgroup: one.name, showlegend: told, opacity: one.faint ? .35 : 1 };
    const off = (ends, values) => ends.map((end, at) => end === null ? 0 : Math.abs(end - values[at]));
    const strokes = values => one.low && { type: "data", symmetric: false, array: off(one.high, values), arrayminus: off(one.low, values), thickness: 1.2 };
    const rows = one.y.map((name, at) => one.text ? `${name}: ${one.text[at]}` : name);
    if (kind === "bars") return [{ ...base, type: "bar", orientation: "h", x: one.x, y: rows, marker: { color: one.colour }, error_x: strokes(one.x) }];
    const mode = [one.line && "lines", one.marker && "markers", one.text && "text"].filter(Boolean).join("+");
    const drawn = [{ ...base, x: one.x, y: one.y, mode, text: one.text, textposition: "top center", connectgaps: false, marker: { color: one.colour, symbol: one.marker, size: one.faint ? 5 : 8 },
      line: { color: one.colour, dash: one.line, width: one.faint ? 1 : 2.5 }, error_y: one.marker ? strokes(one.y) : undefined }];
    if (one.low && !one.marker) {
      const edge = { ...base, x: one.x, mode: "lines", hoverinfo: "skip", showlegend: false, line: { width: 0 } };
      drawn.unshift({ ...edge, y: one.low }, { ...edge, y: one.high, fill: "tonexty", fillcolor: one.colour + "33" });
    }
    return drawn;
  };
  const show = (place, panel) => {
    const style = getComputedStyle(document.body), ink = style.color.replace(/rgb\((.*)\)/, (_, parts) => "#" + parts.split(",").map(part => Number(part).toString(16).padStart(2, "0")).join(""));
    const bars = panel.kind === "bars", rows = bars ? new Set(panel.curves.flatMap(one => one.y)).size : 0;
    place.style.height = bars ? `${150 + 30 * rows}px` : "";
    place.setAttribute("aria-label", panel.title);
    const named = new Set();
    Plotly.react(place, panel.curves.flatMap(one => traces(one, panel.kind, named, ink)), {
      xaxis: axis(panel.x, ink), yaxis: bars ? { automargin: true, autorange: "reversed", type: "category" } : axis(panel.y, ink), barmode: "stack", hovermode: "closest",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, margin: { t: 40, r: 30, l: 10, b: 60 }, modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)" }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, family: "system-ui, sans-serif" },
      shapes: panel.target === null ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: panel.target, y1: panel.target, line: { dash: "dash", width: 1, color: ink } }],
    }, { responsive: true, displaylogo: false, modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] });
  };
  globalThis.charts = groups => {
    if (!globalThis.Plotly) { said.hidden = false; return; }
    const draw = () => places.forEach((place, at) => {
      const select = place.parentElement.querySelector("select"), { panels } = groups[at];
      if (select && !select.options.length) {
        select.append(...panels.map((panel, number) => new Option(panel.title, number)));
        select.addEventListener("change", () => show(place, panels[select.value]));
      }
      show(place, panels[select ? select.value : 0]);
    });
    draw();
    document.getElementById("theme").addEventListener("click", draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  };
}
