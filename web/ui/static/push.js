// The service worker of the pages: it shows what a server tells this browser, and opens the page about it.
"use strict";
addEventListener("push", e => {
  let said = {};
  try { said = e.data.json(); } catch { /* something else was sent: a browser wants a notification all the same */ }
  e.waitUntil(registration.showNotification(said.title || "Freshet", { body: said.body || "", tag: said.tag || "", data: said.url || "/" }));
});
addEventListener("notificationclick", e => {
  e.notification.close();
  e.waitUntil(clients.openWindow(e.notification.data));
});
