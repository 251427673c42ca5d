// Package deliver calls the callbacks of subscribers that hold no connection. A
// Sender for each way (WebSub, webhooks) decides what is sent. The Engine decides
// when, how often and how much at a time.
//
// A subscription is a cursor in the store. No message is queued in memory: memory
// holds only which subscriptions to look at, and when. A killed process therefore
// loses nothing, a callback that is down costs a timer, and ten thousand
// subscribers of one topic cost ten thousand small entries and one body.
//
// A subscription has at most one request under way, so messages arrive in order.
// A callback that hangs occupies one place of its limiter. Callbacks that answered
// well last time share the wide limiter, all others the narrow one. So a callback
// that begins to hang blocks others for one request at most.
package deliver
