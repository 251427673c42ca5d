// Package deliver calls the receivers of subscribers that hold no connection. A
// Target for each way (WebSub, webhooks) decides what is sent. The Engine decides
// when, how often and how much at a time. Schedule says when a message is sent again.
//
// A subscription is a cursor in the store. No message is queued in memory: memory
// holds only which subscriptions to look at, and when. A killed process therefore
// loses nothing, a callback that is down costs a timer, and ten thousand
// subscribers of one topic cost ten thousand small entries and one body.
//
// A subscription has at most one request under way, so messages arrive in order.
// A callback that hangs occupies one place of its limiter. Callbacks that answered
// well last time share the wide limiter, those that were slow share a small one, and
// all others the narrow one. The places of a limiter go to the callers in turn, so
// the callbacks of one caller do not keep those of another waiting.
package deliver
