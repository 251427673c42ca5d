// Package deliver calls the callbacks of subscribers that hold no connection. The
// ways out (WebSub, webhooks) decide what is sent; this package decides when, to
// whom, how often and how much at once.
//
// A subscription is a cursor in the store. Nothing that is to be delivered is
// queued: memory only holds that there may be something to look at, and when. So a process that is killed loses nothing, a callback that is
// down costs a timer, and ten thousand subscribers of one topic cost ten
// thousand small entries and one body.
//
// One subscription has one request under way at most, so that nothing is
// delivered out of order. A callback that hangs keeps one place of its limiter:
// those that answered well last time share the wide one, all others, new ones too,
// the narrow one. A callback that has just begun to hang is
// therefore out of the way of all others after one request.
package deliver
