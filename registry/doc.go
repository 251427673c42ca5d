// Package registry defines the types that all other packages share (queries,
// endpoints, profiles, changes, positions, subscriptions) and the service that
// registers queries and configures endpoints.
//
// # Glossary
//
// The code, its documentation, the API and the pages use each of these words for
// one thing only.
//
// What is kept fresh:
//
//   - endpoint: a SPARQL 1.1 Protocol service that Freshet does not control, with
//     the settings that say when and how it is asked. See [Endpoint].
//   - query: a read query on one endpoint. Two callers who ask the same question
//     share one query. See [Query].
//   - registration: the request of one caller to keep a query fresh, with a name,
//     tags and settings. The caller is then a holder of the query. See
//     [Registration] and [Holder].
//   - hold: what keeps a query registered. A query is deleted when its last holder
//     releases it. A live hold is made by a connected subscription and ends 24
//     hours after its last disconnection. See [LiveHold].
//   - result: the last complete answer to a query, in canonical form. See
//     [github.com/freshet/freshet/diff.Result].
//   - staleness: the time since a result was last known to be true. max_staleness
//     bounds it.
//   - hint: a report that something changed at an endpoint. Queries that it may
//     affect run earlier. See [Hint].
//   - node: a server that keeps the same data as others. Together they are a cluster.
//     The node that has the lease of an endpoint is its owner. See [Node].
//
// When queries run:
//
//   - slot: one run of an endpoint's schedule. Slots are numbered from 1.
//   - grid: the times at which an endpoint's slots begin. A tick is a slot that runs
//     on request. An execution outside the grid runs between two slots because of a
//     hint.
//   - plan: what the scheduler knows of an endpoint's queries and the order in which
//     it would run them.
//   - eligible: a query that may run in the next slot. It is passed over if it is
//     eligible and does not run in a slot.
//   - budget: the upper bound on an endpoint's execution seconds in one slot, K in
//     formulas. A share is a part of it that some executions may use.
//   - debt: execution seconds beyond a budget, which later slots repay.
//   - execution: one request of a query to its endpoint, from its start to its end.
//     Its outcome says how it ended. See [Outcome].
//   - estimate: how many seconds the next execution of a query is expected to take.
//   - policy: what orders the queries that compete for a budget. The position in
//     this order is a query's rank.
//   - deadline: the latest time at which a query is to run. The slack is the time
//     that is left until then.
//   - tally: counts that are updated with every change, so that reading them is
//     cheap.
//   - profile: a set of queries to be refreshed within a common deadline. See
//     [Profile].
//   - round: one attempt to capture a profile. It ends captured or expired. See
//     [Round].
//   - interval: the time or the slots of a round in which one query has to run. See
//     [Interval].
//   - claim: the demand of an interval for an execution ahead of ranked queries.
//   - EI and CEI: an execution interval and a complex execution interval, the terms
//     of Roitman, Gal and Raschid for an interval and a round. See
//     [github.com/freshet/freshet/scheduler/rounds/interval].
//   - record: what is stored about a finished execution. Policies and shadows learn
//     from records.
//   - shadow: a simulation of another policy on the records of a live endpoint.
//
// What is sent:
//
//   - change: one committed step from a query's result to its next one. The first is
//     the baseline, which leads from the empty result. See [Change].
//   - delta: the rows that a change adds and removes. See
//     [github.com/freshet/freshet/diff.Delta].
//   - log: the committed changes of a query, or of all queries, in their order.
//     Retention trims its old end.
//   - position: a point in a query's log: an epoch, which names a numbering, and a
//     number that counts the changes from 1. An offset is a point in the log of all
//     queries. See [Position] and [Offset].
//   - cursor: the position up to which a reader of the log has read, with its filter
//     and its rate.
//   - follower: a program that receives changes: a connected client or the callback
//     of a webhook or a WebSub subscription.
//   - way: the protocol by which a follower receives changes. See [Way]. The code
//     that decides what the subscriptions of one way are sent is its sender.
//   - subscription: what one follower asked for, with its cursor and its failures.
//     See [Subscription].
//   - window: the number of messages that a client may leave unacknowledged.
//   - fold: to add up waiting changes into one net change, for a reader that lags or
//     whose rate or filter withholds them. See [Withheld].
//   - lease: what ends after a time unless it is renewed. A WebSub subscription has one,
//     and a node has one for each endpoint that it asks.
//   - delivery: one message to a callback. A delivery that failed too often is given
//     up and becomes a dead letter. See [DeadLetter].
//   - outbox: the message of a subscription whose content is fixed before its first
//     attempt. See [OutboxMessage].
//   - wake-up: the signal to followers to look at the log again. It carries no data.
//   - hub: the WebSub hub of this server.
package registry
