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
// stored subscription, ask once, and store what it leaves.
//
// What many clients are sent alike is made once: pages of the log, results, and the
// encoded members of a change are caches with a bound in bytes (loan.Cache). A writer
// that has to wait for its client lends such data back (package loan, Documents) and
// gets it again afterwards.
//
// Who does the work: all connected clients have the same loop, Server.Follow, which waits for
// its cursor. An event stream and a SEPA subscription are a goroutine each that runs
// it. A WebSocket (package live) has a goroutine for each subscription, which runs it, too,
// and one that reads its client. They share a gathering: a goroutine enters it, adds
// frames, and leaves before it waits, and the last one to leave writes. A wake-up of several
// queries enters all subscriptions first, so what a commit brings to a connection is one write.
// While the client does not read, they wait for that write, and what follows stays in the log.
// Package deliver calls webhooks and WebSub callbacks.
//
// # Adding a way
//
// A way only encodes events and sends them. One for connected clients is an HTTP handler
// that gives [Server.Follow] a function which writes each event. The example of Follow is such a
// one, and Accept of package live upgrades a WebSocket; package sepa is a complete way. One for
// callbacks implements deliver.Target, whose Next returns the next request of a
// subscription; package webhook is a complete way. Its handler makes a subscription with
// Engine.Edit: an id with a prefix of its own, the query, and the state Active or, until
// the callback has confirmed it, Pending. Call.Send delivers a message: deliver.HTTP makes one
// that calls a URL, and any other function may write elsewhere. The engine judges the reply:
// when the message is sent again and when it is given up is the same for all ways. A kind of
// receivers of alerts is no way of its own: see the type kind of package alert. What else
// names a way:
//
//   - registry.Ways, with its title and whether its followers are connected. The pages and
//     the metrics list it from there. The schema Way of web/docs/openapi.yaml repeats it.
//   - A handler is a field of web.Config with a route in web/routes.go, and a target is
//     an entry of deliver.Options.Targets. Package cmd/internal/server sets both.
//   - TestWaysOutAskTheRegistry has the call by which the way checks that a caller may
//     read a query. TestEveryWayOutIsManaged receives, pauses and drops by each way.
//
// # What a connection and a message cost
//
//	go test ./notify -run '^$' -bench 'Idle|Delivery|Coalescing' -benchtime 30x -count 3
//
// measures this, and web/docs/sizing.md has the figures.
package notify
