// The button "Tell this browser": it subscribes at the browser's push service and fills in the address. Without this file
// an address is typed.
"use strict";
(() => {
  const able = isSecureContext && "serviceWorker" in navigator && "PushManager" in window;
  for (const button of document.querySelectorAll("[data-do=push]")) {
    button.hidden = !able;
    button.addEventListener("click", () => tell(button));
  }

  async function tell(button) {
    const said = button.nextElementSibling;
    said.textContent = "";
    button.disabled = true;
    try {
      put(button, await address());
      said.textContent = "This browser is filled in.";
      if ("send" in button.dataset) button.form.requestSubmit();
    } catch (e) {
      said.textContent = e.name === "NotAllowedError" ? "The browser does not allow it: allow notifications of this page in its settings."
        : "It did not work: " + e.message;
    }
    button.disabled = false;
  }

  function put(button, address) {
    const field = button.form.elements[button.dataset.into];
    const others = field.value.split("\n").map(line => line.trim()).filter(line => line && line !== address);
    field.value = field.rows ? [...others, address].join("\n") : address;
    field.focus();
  }

  async function address() {
    const answer = await fetch("/push-key");
    if (!answer.ok) throw new Error("the server has no key for messages to browsers");
    const key = bytes(await answer.text());
    await navigator.serviceWorker.register("/push.js");
    const worker = await navigator.serviceWorker.ready;
    let at = await worker.pushManager.getSubscription();
    if (at && !same(new Uint8Array(at.options.applicationServerKey), key)) { // of a server that was here before
      await at.unsubscribe();
      at = null;
    }
    at ??= await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    const { endpoint, keys } = at.toJSON();
    return "webpush+" + endpoint + "#p256dh=" + keys.p256dh + "&auth=" + keys.auth;
  }

  const bytes = text => Uint8Array.from(atob(text.trim().replace(/-/g, "+").replace(/_/g, "/")), c => c.charCodeAt(0));
  const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
})();
