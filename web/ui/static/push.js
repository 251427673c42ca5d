// The service worker of the pages: it shows what a server tells this browser, and opens the page about it.
"use strict";
addEventListener("push", e => {
  let said = {};
  try { said = e.data.json(); } catch { /* something else was sent: a browser wants a notification all the same */ }
  e.waitUntil(registration.showNotification(said.title || "Freshet", { body: said.body || "", tag: said.tag || "", data: said.url || "/" }));
});
// The browser has ended its subscription, or made a new one: the server, which knows the old one only, cannot tell it any more.
addEventListener("pushsubscriptionchange", e => {
  e.waitUntil(registration.showNotification("This browser is told no more", { tag: "ended", data: "/deliveries",
    body: "Its subscription has ended. Press “Tell this browser” again where you want to be told." }));
});
addEventListener("notificationclick", e => {
  e.notification.close();
  e.waitUntil(clients.openWindow(e.notification.data));
});
