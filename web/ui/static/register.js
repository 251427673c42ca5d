// The editor of the page that registers a query: line numbers, the analysis while one types, Ctrl+Enter.
// Without this file the buttons "Check" and "Run once" do the same.
"use strict";
(() => {
  const form = document.getElementById("register"), text = document.getElementById("f-query"), numbers = text.previousElementSibling;

  function count() {
    const n = Math.max(12, text.value.split("\n").length + 1);
    if (numbers.textContent.split("\n").length - 1 === n) return;
    numbers.textContent = Array.from({ length: n }, (_, i) => i + 1 + "\n").join("");
    text.rows = n;
  }

  // One question at a time; what was typed meanwhile is asked next. The answer is the server's own fragment.
  let timer, asking = false, again = false;
  async function check() {
    if (asking) { again = true; return; }
    asking = true;
    try {
      const answer = await fetch(form.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      if (answer.ok) put(await answer.text());
    } catch { /* offline: the button asks when there is a network again */ }
    asking = false;
    if (again) { again = false; check(); }
  }
  function put(html) {
    const t = document.createElement("template");
    t.innerHTML = html.trim();
    for (const el of [...t.content.children]) document.getElementById(el.id)?.replaceWith(el);
  }

  form.addEventListener("input", () => { count(); clearTimeout(timer); timer = setTimeout(check, 350); });
  text.addEventListener("keydown", e => {
    if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
    e.preventDefault();
    form.requestSubmit(form.querySelector("button[value=try]"));
  });
  count();
})();
