"use strict";
// Interactive curves: library and data are loaded when the reader asks for them.
{
  const section = document.getElementById("curves"), open = document.getElementById("open-curves"), said = document.getElementById("curves-said");
  const panels = document.getElementById("panels"), select = panels.querySelector("select"), plot = document.getElementById("plot");
  const load = source => new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = source;
    script.onload = done;
    script.onerror = () => failed(new Error(source));
    document.head.append(script);
  });
  const axis = ({ title, log }) => ({ title: { text: title }, type: log ? "log" : "linear", automargin: true, gridcolor: "#e7e5e4", zeroline: false });
  const faint = colour => `${colour}33`;
  // An interval is a band around its line.
  const traces = line => {
    const base = { legendgroup: line.name, name: line.name, line: { color: line.colour, dash: line.dash, width: line.faint ? 1 : 2.5 }, opacity: line.faint ? .5 : 1 };
    const drawn = [{ ...base, x: line.x, y: line.y, mode: line.marks ? "lines+markers" : "lines", marker: { color: line.colour, size: 7 }, showlegend: line.legend, connectgaps: false }];
    if (line.low) {
      const edge = { ...base, x: line.x, mode: "lines", hoverinfo: "skip", showlegend: false, line: { width: 0 } };
      drawn.unshift({ ...edge, y: line.low }, { ...edge, y: line.high, fill: "tonexty", fillcolor: faint(line.colour) });
    }
    return drawn;
  };
  const show = panel => Plotly.react(plot, panel.lines.flatMap(traces), {
    xaxis: axis(panel.x), yaxis: axis(panel.y), hovermode: "closest", legend: { orientation: "h", y: -.2 }, margin: { t: 20, r: 20 },
    paper_bgcolor: "#fff", plot_bgcolor: "#fff", font: { color: "#1c1917", family: "system-ui, sans-serif" },
    shapes: panel.target === null ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: panel.target, y1: panel.target, line: { dash: "dash", width: 1, color: "#57534e" } }],
  }, { responsive: true, displaylogo: false, modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] });
  let loading = null;
  // A data file beside the page calls this with its panels.
  globalThis.curves = data => {
    data.forEach((panel, place) => select.append(new Option(panel.title, place)));
    select.addEventListener("change", () => show(data[select.value]));
    plot.hidden = panels.hidden = false;
    open.hidden = true;
    show(data[0]);
  };
  open.addEventListener("click", () => {
    said.textContent = "Loading.";
    loading ??= load(section.dataset.library).then(() => load(section.dataset.curves));
    loading.then(() => { said.textContent = ""; }, () => {
      said.textContent = "This copy of the report has no interactive curves: build the report to have them.";
      loading = null;
    });
  });
  open.hidden = false;
}
