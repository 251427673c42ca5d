// Adds changes to the status page as they come. The page is complete without.
"use strict";
(() => {
  const main = document.querySelector("main");
  const table = document.getElementById("changes");
  if (!table || !main.dataset.after) return;
  const shown = 30;

  const count = (part) => !part ? 0 : (part.triples ?? part.results?.bindings ?? []).length;
  const cell = (row, text, href) => {
    const td = row.insertCell();
    if (!href) { td.textContent = text; return; }
    const a = document.createElement("a");
    a.href = href;
    a.textContent = text;
    td.append(a);
  };

  const names = new Map();
  const name = async (id) => {
    if (!names.has(id)) {
      names.set(id, fetch("/v1/queries/" + encodeURIComponent(id))
        .then((r) => r.ok ? r.json() : {}).then((q) => q.name || id, () => id));
    }
    return names.get(id);
  };

  const show = async (event) => {
    const c = JSON.parse(event.data);
    if (!c.query || !c.seq) return;
    document.getElementById("none")?.remove();
    const row = table.insertRow(0);
    row.className = "fresh";
    cell(row, new Date(c.time).toISOString().slice(11, 19));
    cell(row, c.query, "/v1/queries/" + encodeURIComponent(c.query) + "/results");
    cell(row, c.seq);
    cell(row, c.truncated ? "many" : count(c.added));
    cell(row, c.truncated ? "many" : count(c.removed));
    cell(row, c.baseline ? "first result" : "");
    while (table.rows.length > shown) table.deleteRow(-1);
    setTimeout(() => { row.className = ""; }, 3000);
    row.cells[1].firstChild.textContent = await name(c.query);
  };

  const source = new EventSource("/v1/changes?after=" + encodeURIComponent(main.dataset.after));
  source.addEventListener("message", show);
  source.addEventListener("change", show);
  source.addEventListener("gap", () => location.reload());
})();
