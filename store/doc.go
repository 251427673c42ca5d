// Package store implements the storage interfaces of the other packages in one
// bbolt file: registrations, the last complete result of each query, the log of
// changes, statistics, slots, tokens, and profiles with their rounds. A round is
// written in the transaction of the executions that open, advance or end it. A
// profile's captures are numbered like changes, under an epoch of the same kind.
//
// # Structure
//
// Open returns a DB, which has a store for each subject. These stores share the file and
// know nothing of each other: a boltFile runs their transactions. Below them are functions
// that read and write the entries of one kind in a transaction, such as storedQuery.
//
// A write is a command (command.go). It is decided on first: edits run, results are packed,
// and the time and the bounds of retention are added. Then it is applied. Applying uses only
// the command and the file, and neither a clock nor randomness nor settings. So the same
// commands in the same order give the same entries.
//
//   - Without a journal, boltFile.execute decides and applies in one transaction. Nothing is
//     encoded.
//   - With Options.Journal, a command is decided on in a read transaction and appended. The
//     replica (package replica) of every node decodes the commands and applies them in the order of
//     the journal, and gives the answer to the caller on the node that appended it. follow.go
//     says what it may do with the file.
//   - What other nodes have written is reported by WatchOthers after its commit, so that the
//     memory and the followers of this node learn of it (feed.go).
//   - A decoded command contains what its caller had seen. If that has changed, the command has
//     no effect, and the caller decides again.
//   - The position of the last command is written in the transaction that applies it. Open
//     refuses a journal that does not continue there.
//   - Nodes compare a hash of what they have made of the commands now and then. A node that
//     differs from the others stops and must be rebuilt.
//   - The epoch and the seed come from the first command (enter.go). A store with data begins a
//     journal only if it is the one that was last in use. Its copies wait for it and join.
//   - kinds.go lists the commands. Each is in the file of its subject. Files of subjects use those
//     below them: file.go, keys.go, wire.go; nothing there knows a subject.
//   - The purge is a sequence of numbered commands, because retention counts what it deletes.
//   - Leases (leases.go) say which node owns an endpoint. What the owner records has the
//     token of its lease, and has no effect once another node has taken the lease.
//   - A node reports a gap, or that something does not exist, only after a quorum has accepted
//     a command without effect and the node has applied it. So a node that is cut
//     off from the others reports that it does not know.
//
// To add data, name its bucket in keys.go, and write its functions in a file of its own. The bucket of
// a released version is added by a migration in enter.go.
//
// # Numbering
//
// Every change gets two numbers in the transaction that stores it: seq counts the
// changes of its query, offset those of the whole store. Each increases by one and
// is never reused within an epoch. The store's epoch is random. It is replaced
// whenever the file may not be the one that was last in use (see backup.go). A
// query's epoch combines the store's epoch with the query's serial number, so it
// also changes when a query is removed and registered again. A new epoch drops the
// stored changes, since no follower may continue through them; results, seq and
// offset are kept.
//
// # Layout
//
// A query is keyed by its id in the buckets that are read by id. In those that
// hold its history it is keyed by its serial number, which is never reused; the
// same holds for an endpoint ("space"). Data keyed by a serial number can be
// deleted long after its owner: removal deletes the owner at once and leaves the
// rest to purge.go. Numbers in keys are big-endian.
//
//	meta      schema, seed, epoch, generation, counters, secrets
//	spaces    endpoint name → space
//	owners    space number → endpoint name, only while the endpoint lives
//	endpoints name → endpoint, as JSON
//	health    space number → registry.Health, as JSON
//	slots     space number, slot number → scheduler.Slot, as JSON
//	queries   id → serial, space, revision, registry.Query as JSON
//	stats     id → serial, space, seq, scheduler.Stats; small, rewritten often; none before
//	          the first execution
//	names     name, serial, caller → id; and caller, name, serial → id
//	live      id, caller → space, time of release, node; as JSON
//	revisions space, revision → id: one entry per query
//	removals  space, revision → id of a removed query
//	results   serial → hash, form, document
//	changes   serial, seq → change
//	snapshots serial, seq → the result after that change, in the form of results
//	offsets   offset → serial, seq
//	old       offset → serial, seq, time: changes that retention may drop
//	purge     data that is still to be deleted
//	holdings  caller → queries, their bytes, profiles
//	tokens    name → registry.Token, as JSON
//	profiles  id → serial, space, registry.Profile as JSON
//	progress  id → state of the profile: counts, its last opening; as JSON
//	rounds    serial of the profile, round → registry.Round, as JSON
//	open      serial, round: the open ones
//	ends      serial, position → round, captures and expiries so far
//	captures  serial, seq → position among the ends
//	models    query id → update.Week, as JSON, of queries that profiles predict
//	subscriptions id → registry.Subscription, as JSON: those that outlive a connection
//	feeds     name → proof.Feed, as JSON
//	touched   id → serial, space, revision, proof.Touch as JSON, of queries that a feed is compared with
//	touches   space, revision, id: one entry per query in touched
//	nodes     name → registry.Node, as JSON: the members of the cluster
//	leases    key → its owner and token, as JSON
//
// # Cost
//
// A commit is two fdatasyncs, so changes and registrations share commits. With a journal the
// answer waits for its flushes, too. The figures are in web/docs/sizing.md.
//
// # Past states
//
// The state after a change is computed from the nearest stored result: the newest one, the
// baseline, or a snapshot. A change stores a snapshot once the changes since the last one
// have four times the size of the result, so snapshots add at most a quarter to the log.
// They count toward retention.bytes and are dropped with their change. A read copies what it
// needs in short transactions, so it does not delay commits. The state's hash is compared with
// the recorded one.
//
// # Lists
//
// Lists, searches and counts examine a catalog in memory (package catalog), which the first of
// them builds and each commit brings up to date. The registrations of a page are then read from the
// file.
package store
