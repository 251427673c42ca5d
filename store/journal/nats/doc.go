// Package nats keeps journals in NATS JetStream 2.12 or later: on embedded servers (Start), which
// form a cluster of their own, or on external ones (Dial).
//
// # Streams
//
// A journal is a stream with a subject for each id. Append publishes the commands of a group as
// one atomic batch. JetStream stores it only if the stream ends where the writer believes
// (expected last sequence), and if no entry has the same id (expected last sequence 0 of the
// id's subject). The first condition makes numbers dense and lets each entry contain the hash of
// the one before. The second recognises ids for as long as their entries are kept, unlike
// JetStream's window of duplicates. A writer that loses against another node reads the new end
// and tries again.
//
// An outcome that is unknown needs no further thought: the same batch is published again. If the
// first one was stored, the second is refused, and the id's subject gives the number. A batch
// that is delayed in the network is refused when it arrives, since the stream does not end where
// it expects.
//
// Commands above 512 KiB are chunks in one atomic batch, which ends with a message that has the
// id. JetStream forgets a batch whose last message does not arrive.
//
// # Lost answers
//
// A request to a leader that is gone, or on a connection that breaks, gets no answer. It is sent again after
// two seconds, which is no longer than members take to elect another leader: four to nine seconds. A leader
// that sends and receives nothing is not gone, and commits nothing. Its connections, and those of Dial, end
// after four to six seconds without an answer to their pings.
//
// # Reading
//
// Read asks for the next messages when JetStream says that it has committed one (republish), and four times a
// second. Any server of the stream answers, such as the one in this process. A server that lags has less, never
// something else, or the chain shows it. If nothing came for a second, Read asks the leader for the end, and for
// what is missing.
//
// # Durability
//
// Embedded servers flush each write to the disk before it is acknowledged (sync_always), and
// all of them keep each entry. External servers must be configured in the same way; a client
// cannot see whether they are. A cluster has 1, 3 or 5 members with fixed addresses. While no
// majority is connected, Append waits. A server that has lost its majority, or that was just elected, may
// answer with an old end for some seconds; Config.Patience is how long a journal must look shortened before
// it is taken to be.
//
// # Damaged files
//
// JetStream reads its own files, and nothing else does. It drops what it cannot read, so the copy of a member
// may have a hole, begin too late, or no longer grow. The node of the member looks at that each second and
// refuses to go on with an ErrUnreadable: its directory is then removed, and the member takes everything from
// the others. A message that the leader lacks counts as an altered journal only after Config.Patience, since
// the leader may be such a member, whose own node then gets an ErrDropped if its copy begins too late. If the end
// is lost, the nodes know better, because each compares the end with the last entry that it has applied: see
// ErrShortened.
//
// # Access
//
// Members and clients share a token. With TLS, members verify each other's certificates, so the
// certificate must serve as that of a server and of a client; clients need none. The node's own
// journal connects within the process, without TLS. A server with other members listens for
// clients in any case, on the loopback interface if no address is given, since nats-server opens
// its routes only then.
package nats
