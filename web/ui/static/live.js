// Live updates, theme and running times. Without this file every page is whole; it only keeps it moving.
// The server renders fragments with the same templates as the page and sends them as events:
//   event: text   data: {"key":"changes-today","text":"3,419"}           -> every [data-live=key]
//   event: swap   data: {"id":"hydro-city","html":"<div …>"}             -> the element of that id is replaced
//   event: add    data: {"list":"stream","html":"<li …>","max":12}       -> goes on top, the oldest leaves
//   event: say    data: {"text":"library answers again"}                 -> told to screen readers, politely
//   event: end                                                           -> what the page shows is gone
"use strict";
(() => {
  const root = document.documentElement;
  const $ = (sel, from = document) => [...from.querySelectorAll(sel)];
  root.classList.add("js");

  // Times run against the server's clock, which it writes into the page.
  const skew = root.dataset.now ? new Date(root.dataset.now) - Date.now() : 0;
  const NB = "\u202f";
  const span = s => s < 60 ? s + NB + "s" : s < 3600 ? Math.floor(s / 60) + NB + "min" : Math.floor(s / 3600) + NB + "h";
  function tick() {
    const now = Date.now() + skew;
    for (const el of $("time[datetime]:not([data-fixed])")) {
      const since = Math.round((now - new Date(el.dateTime)) / 1000);
      const s = "past" in el.dataset ? Math.max(0, since) : since;   // a page that came late reckons with a clock that is slow
      if (Math.abs(s) >= 86400) continue;                       // older ones are written as dates and stay
      const text = s >= 0 && "next" in el.dataset ? "now" : s >= 0 ? span(s) + " ago" : "in " + span(-s);
      if (el.textContent !== text) el.textContent = text;
    }
  }

  // Theme: the server reads a cookie and writes data-theme, so that nothing flashes. The button works without script, too.
  const order = ["auto", "light", "dark"];
  let theme = root.dataset.theme || "auto";
  function paint() {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    for (const b of $("[data-do=theme]")) { b.textContent = "Theme: " + theme; b.value = order[(order.indexOf(theme) + 1) % 3]; }
  }

  // Applying events. What the reader holds (focus, an open detail, the pointer over it) is not pulled away: it waits.
  const held = [], waiting = new Map();
  let paused = false;
  const make = html => { const t = document.createElement("template"); t.innerHTML = html.trim(); return t.content.firstElementChild; };
  const busy = el => el.contains(document.activeElement) && document.activeElement !== el || el.matches(":hover") || el.querySelector("details[open], :active");
  function put(d) {
    const list = document.getElementById(d.list), li = make(d.html);
    document.getElementById(d.list + "-void")?.remove();
    li.classList.add("fresh");
    list.prepend(li);
    while (list.children.length > d.max) list.lastElementChild.remove();   // bounded, here as on the server
  }
  const apply = {
    text: d => { for (const el of $(`[data-live="${CSS.escape(d.key)}"]`)) el.textContent = d.text; },
    swap: d => {
      const el = document.getElementById(d.id);
      if (!el) return;
      if (busy(el)) { waiting.set(d.id, d); return; }            // the newest of each part waits
      waiting.delete(d.id);
      const now = make(d.html);
      for (const c of $("input:checked", el)) for (const x of $("input", now)) if (x.name === c.name && x.value === c.value) x.checked = true;
      el.replaceWith(now);
      focusable();
      if (shown && !shown.svg.isConnected) hide();
    },
    add: d => {
      const list = document.getElementById(d.list);
      if (!list) return;
      if (busy(list)) { held.push(d); held.splice(0, held.length - d.max); return more(); }
      put(d);
    },
    say: d => { const el = document.getElementById("say"); if (el) el.textContent = d.text; },
  };
  function more() {
    const b = document.getElementById("more");
    if (!b) return;
    b.hidden = held.length === 0;
    b.textContent = held.length + (held.length === 1 ? " newer change" : " newer changes");
  }
  function release() {
    document.activeElement.blur();
    for (const d of held.splice(0)) put(d);
    more();
    tick();
  }
  function settle() {
    for (const d of [...waiting.values()]) apply.swap(d);
    const list = held[0] && document.getElementById(held[0].list);
    if (list && !busy(list)) { for (const d of held.splice(0)) put(d); more(); }
  }

  // Plots say their values: under the pointer, or mark by mark with the arrow keys while one has the focus. Without script the marks keep their titles.
  const tip = document.createElement("p");
  tip.id = "tip"; tip.hidden = true; tip.setAttribute("role", "status");
  (document.querySelector("main") ?? document.body).append(tip);
  let shown = null;                                              // the plot and the number of its mark
  function marks(svg) {
    if (svg.dataset.values) {
      svg.querySelector("title")?.remove();                      // its label says the same
      const box = svg.getBoundingClientRect(), words = svg.dataset.values.split("|"), w = box.width / words.length;
      return words.map((text, i) => ({ text, left: box.left + i * w, width: w, top: box.top }));
    }
    for (const t of [...svg.querySelectorAll("title")]) if (t.parentNode !== svg) { t.parentNode.dataset.text = t.textContent; t.remove(); }
    return [...svg.querySelectorAll("[data-text]")].map(el => { const b = el.getBoundingClientRect(); return { text: el.dataset.text, left: b.left, width: b.width, top: Math.max(b.top, svg.getBoundingClientRect().top), href: el.dataset.href }; }).sort((a, b) => a.left - b.left);
  }
  function show(svg, pick) {
    const all = marks(svg), i = all.length ? pick(all) : -1;
    if (i < 0) return hide();
    const m = all[i];
    shown = { svg, i, href: m.href };
    if (tip.textContent !== m.text) tip.textContent = m.text;
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = Math.max(8, Math.min(room, m.left + m.width / 2 - tip.offsetWidth / 2)) + "px";
    tip.style.top = Math.max(4, m.top - tip.offsetHeight - 6) + "px";
  }
  function hide() { tip.hidden = true; shown = null; }
  const nearest = x => all => { let best = 0, far = Infinity; all.forEach((m, i) => { const d = Math.max(m.left - x, x - m.left - m.width, 0); if (d < far) { far = d; best = i; } }); return best; };
  const focusable = () => { for (const svg of $("svg[data-plot]:not([tabindex])")) svg.setAttribute("tabindex", "0"); };
  for (const type of ["pointermove", "pointerdown"]) document.addEventListener(type, e => {
    const svg = e.target.closest?.("svg[data-plot]") ?? e.target.ownerSVGElement?.closest("svg[data-plot]");
    if (svg) show(svg, nearest(e.clientX)); else if (shown && shown.svg !== document.activeElement) hide();
  });
  document.addEventListener("focusin", e => { if (e.target.matches?.("svg[data-plot]")) { if (e.target.matches(":focus-visible")) show(e.target, all => all.length - 1); } else hide(); });
  document.addEventListener("focusout", e => { if (e.target.matches?.("svg[data-plot]")) hide(); });
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", e => {
    if (!shown) return;
    if (e.key === "Escape") return hide();
    if (shown.svg !== document.activeElement) return;
    const to = { ArrowLeft: shown.i - 1, ArrowRight: shown.i + 1, Home: 0, End: Infinity }[e.key];
    if (to !== undefined) { e.preventDefault(); show(shown.svg, all => Math.max(0, Math.min(all.length - 1, to))); }
    if (e.key === "Enter" && shown?.href) location.href = shown.href;
  });
  document.addEventListener("click", e => { if (shown?.href && e.target.closest?.("svg[data-plot]")) location.href = shown.href; });

  function conn(state, text) {
    const el = document.getElementById("conn");
    if (el) { el.className = "state " + state; if (el.textContent !== text) el.textContent = text; }
  }
  let source = null, over = false, at = $("[data-at]")[0]?.dataset.at;
  function listen() {
    const events = root.dataset.events;
    source = new EventSource(at ? events + (events.includes("?") ? "&" : "?") + "at=" + encodeURIComponent(at) : events);
    source.addEventListener("message", e => { at = e.lastEventId || at; });
    for (const type of Object.keys(apply)) source.addEventListener(type, e => { apply[type](JSON.parse(e.data)); tick(); });
    source.addEventListener("open", () => conn("live", "Live"));
    source.addEventListener("end", () => { over = true; source.close(); conn("stale", "Ended"); });
    source.addEventListener("error", () => {
      if (over || paused) return;
      conn("stale", "Reconnecting");
      if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (!paused) listen(); }, 5000);   // refused: ask again later
    });
  }
  function pause(on) {
    paused = on;
    for (const x of $("[data-do=pause-live]")) x.setAttribute("aria-pressed", paused);
    if (paused) { source?.close(); conn("paused", "Paused"); } else { listen(); }
  }

  document.addEventListener("click", e => {
    const b = e.target.closest("[data-do]");
    if (!b) { if (e.target.id === "more") release(); return; }
    if (b.dataset.do === "theme") {
      e.preventDefault();
      theme = order[(order.indexOf(theme) + 1) % 3];
      fetch("/theme", { method: "POST", body: new URLSearchParams({ theme, quiet: "1" }) });
      paint();
    } else if (b.dataset.do === "pause-live") {
      pause(!paused);
    } else if (b.dataset.do === "copy") {
      navigator.clipboard.writeText(b.closest("pre")?.firstElementChild.textContent ?? document.querySelector(".once").value).then(() => { b.textContent = "Copied"; });
    } else if (b.dataset.do === "all") {
      for (const c of $("tbody input[type=checkbox]")) c.checked = b.checked;
    }
  });
  document.addEventListener("change", e => {                    // a bulk form says how many it is about
    const form = e.target.closest("form"), n = form?.querySelector(".bulk .n");
    if (n && e.target.type === "checkbox") n.textContent = $("tbody input:checked", form).length + " selected";
  });
  document.addEventListener("keydown", e => {                   // "/" goes to search, nothing else is taken
    if (e.key === "/" && !e.ctrlKey && !e.metaKey && !e.target.closest("input, textarea, select")) {
      const q = document.querySelector("input[type=search]");
      e.preventDefault();
      if (q) q.focus(); else if (document.querySelector(".rail")) location.href = "/queries#f-q";
    }
  });
  if (navigator.clipboard) for (const pre of $("pre.wrap")) pre.append(make('<button type="button" class="btn" data-do="copy">Copy</button>'));
  if (location.hash === "#f-q") document.getElementById("f-q")?.focus();

  paint();
  tick();
  focusable();
  setInterval(() => { if (!paused && !document.hidden) { tick(); settle(); } }, 1000);
  if (root.dataset.events) listen();
})();
