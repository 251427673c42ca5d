// Package journal defines an ordered durable log of commands that several nodes share, so that
// each node can keep a copy of the same state: the nodes append commands, and every node applies
// all commands in the order of the journal. The engines are in the packages below:
//
//	memory    for tests
//	nats      NATS JetStream, embedded in the process or external
//	postgres  PostgreSQL
//
// Package journaltest is the contract as tests. Every engine runs it.
//
// # Use
//
// A node keeps the Position that it has applied together with its state, in one transaction.
// At start it calls Read with that Position before it calls Append, so that it notices a journal
// that does not belong to its state. Append returns the number of the new entry; the node that
// waits for its own command waits until it has applied that number.
//
// # Guarantees
//
//   - Order: all nodes read the same entries in the same order. Numbers begin with 1 and increase
//     by 1.
//   - Durability: when Append returns, the entry is on the disks of a majority (nats), or as
//     durable as the server's settings promise (postgres).
//   - One entry per id: a second Append of an id returns the number of the first, on any node,
//     after any time and any restart, as long as the entry is kept. Its command is ignored.
//   - Known outcomes: Append resolves timeouts and lost connections itself, by the id. Only when
//     the caller's context ends first, or the journal is closed, the outcome may be unknown.
//     Append says so with ErrUnknown. The same call again resolves it.
//   - Whole commands: a command of up to MaxCommand bytes appears as one entry or not at all, also
//     when its writer dies on the way.
//   - Chain: each entry has the hash of the entry before and its own, which covers the whole
//     history. Read verifies both before it calls its function. Append refuses a journal that ends
//     before an entry that this node has read or appended, or that has another one there.
//
// # Errors
//
// ErrDamaged is wrapped by all errors that a further attempt does not mend. The node must stop
// and report it, and never renumber anything. There are five kinds: ErrShortened, ErrAltered, ErrForeign, ErrUnreadable
// and ErrDropped. Outages are no errors of Read, which continues where it was, and none of Append
// while its context allows another attempt.
//
// # Limits
//
// Commands of concurrent calls are committed in groups of up to 256, one group at a time. A journal
// keeps no command of a call that has returned, except those of the current group. Retention says
// which entries are no longer needed: those that all members have applied and that are older than
// an hour, and in any case those older than a day or followed by 16 GiB. An id is forgotten with
// its entry, so an outcome must be resolved within an hour. The last entry is never dropped,
// since the chain continues from it. The clocks of an engine may be wrong, so a Retention counts from when it has
// seen an entry itself. A damaged entry is found when it is read.
//
// The chain detects faults of engines and operators. It does not protect against an attacker who
// can write to the engine.
//
// # Sources
//
// The state machine approach is from F. Schneider, "Implementing fault-tolerant services using the
// state machine approach" (ACM Computing Surveys, 1990). Chained hashes are used in the same way
// by S. Haber and W. Stornetta, "How to time-stamp a digital document" (Journal of Cryptology,
// 1991). Atomic batches are described in ADR-50 of the NATS project, message tracing by expected
// sequence numbers in its JetStream documentation.
package journal
