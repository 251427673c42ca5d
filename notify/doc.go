// Package notify sends subscribers what changed.
//
// # Architecture
//
// Data flows one way: commit → waker → way out → cursor → log → encoder → client.
//
// A commit appends changes to the log and then wakes followers through the Waker,
// which carries no data. A way out serves one kind of client: a
// WebSocket session, an event stream, a SEPA connection, a webhook, a WebSub
// subscription. It owns a cursor (package cursor) and knows nothing of positions,
// filters or rates. When it is woken, or when time is up, it asks the cursor for
// the next event:
//
//	Next(log, now) → Change, Moved, Snapshot, Gap, or Wait until
//
// Next reads at most one page of the log, decides, and moves the cursor. It neither
// waits nor sends. The way out writes the event in its own words and asks again,
// until the cursor says Wait. So following live and resuming after a gap are one
// loop, and a client that reads slowly costs a cursor: what waits for it stays in
// the log and is added up into one net change when it is ready.
//
// Two types hold this state: cursor.Cursor for one query, cursor.MultiCursor for all
// queries. Connections keep theirs in memory; webhooks and WebSub make one from the
// stored subscription, ask once, and store what it leaves. The laws (changes lead
// from each position to the next, nothing is lost or sent twice, no message comes
// sooner than the rate allows, the reader ends with the result) are tested on the
// cursors alone.
//
// What many clients are sent alike is made once: pages of the log, results, and the
// encoded members of a change are caches with a bound in bytes (onceCache). A writer
// that has to wait for its client lends such data back (package loan, Documents) and
// gets it again afterwards.
//
// Who does the work: a session has one goroutine that reads its client and is parked
// while the client is silent. Deliveries are tasks of the worker pool; a worker that
// is about to wait for a client hands off, and another goroutine takes its place.
// Event streams and SEPA subscriptions have a goroutine each and use Server.Stream,
// which waits for their cursor. Package deliver calls webhooks and WebSub callbacks.
//
// # Adding a way
//
// A way only encodes events and sends them. One for connected clients is an HTTP handler
// that ranges over [Server.Stream] and writes each event. The example of Stream is such a
// loop, and [Server.Accept] upgrades a WebSocket; package sepa is a complete way. One for
// callbacks implements deliver.Target, whose Next returns the next request of a
// subscription; package webhook is a complete way. Its handler makes a subscription with
// Engine.Edit: an id with a prefix of its own, the query, and the state Active or, until
// the callback has confirmed it, Pending. The engine only makes HTTP calls: a way that
// writes elsewhere does so in Next and counts nothing as delivered. What else names a way:
//
//   - registry.Ways, with its title and whether its followers are connected. The pages and
//     the metrics list it from there. The schema Way of web/docs/openapi.yaml repeats it.
//   - A handler is a field of web.Protocols with a route in web/routes.go, and a target is
//     an entry of deliver.Options.Targets. Package cmd/internal/server sets both.
//   - TestWaysOutAskTheRegistry has the call by which the way checks that a caller may
//     read a query. TestEveryWayOutIsManaged receives, pauses and drops by each way.
//
// # What a connection and a message cost
//
// An idle WebSocket connection with one subscription is one goroutine on the
// smallest stack. A change is read from the log, unpacked and written as JSON once
// for all followers of a query; after that a message is a copy into a shared
// buffer and one write(2) that does not wait. As many workers as
// there are processors do that; one that has to wait for a client hands off and is
// replaced.
//
//	go test ./notify -run '^$' -bench 'Idle|Delivery|Coalescing' -benchtime 30x -count 3
//
// on an idle virtual machine with two AMD EPYC processors, linux/amd64, go1.26, clients
// in a process of their own, medians of three runs:
//
//	10,000 idle connections        6.0 KB of heap and stack each (2.0 of them
//	                               stack), 6.5 to 8.2 KB of resident memory
//	a message, processor time of the server per message as a ratio to a bare
//	write(2) of the same bytes to the same sockets, by as many goroutines as
//	there are processors:
//	  1 change to      1 follower      613 B 1.72     11 KB 1.53
//	  1 change to    100 followers     613 B 1.49     11 KB 1.45
//	  1 change to  1,000 followers     613 B 1.49     11 KB 1.41
//	  1 change to 10,000 followers     613 B 1.31     11 KB 1.26
//	  100 changes to 1 follower each   615 B 2.38     11 KB 2.94
//	  100 queries on one connection    615 B 1.74     11 KB 2.64
//	one net change instead of 17     1/7 of the bytes; of 64, 1/26; of 500, 1/200
//	                               (ten of a hundred rows change in turn)
//
// The ratios vary by a fifth from run to run: five more runs of one change of 613 B had 1.36 to
// 1.45 with 1,000 followers and 1.31 to 1.35 with 10,000.
//
// Finding, filling and writing a message takes 2 to 3.5 µs besides the kernel's part
// of the write, which is 4 to 6 µs. So the ratio stays above 1.3 where a write is that
// cheap. Where no client shares a change, reading and encoding it falls to one
// message: 8 µs for one row and 25 µs for a hundred. With TLS every write may wait, so
// each takes a goroutine for its time; the figures are without TLS.
package notify
