// Package sepa implements the wire format of SPARQL 1.1 Subscribe over a WebSocket,
// so that clients of a SEPA broker can follow queries. Subscriptions use the same
// cursors as all other protocols. The format has no positions, so a client that
// reconnects starts with the whole result.
//
//	→ {"subscribe":{"sparql","alias"?,"authorization"?,"default-graph-uri"?,"named-graph-uri"?}}
//	← {"notification":{"spuid","alias"?,"sequence":0,"addedResults","removedResults"}}
//	→ {"unsubscribe":{"spuid","authorization"?}}
//	← {"unsubscribed":{"spuid"}}
//	← {"error","status_code","error_description","alias"?}
//
// The first notification has sequence 0 and the whole result as addedResults. If
// there is no result yet, the baseline becomes the first notification. Each later one
// has the next number and one change, or the exact sum of several for a client that
// lags.
//
// Results are bags: a row that occurs twice is listed twice, a variable without a
// value is absent, and removedResults removes as many copies as it lists. Labels of
// blank nodes are canonical. Results have no order, so a change that only reorders
// rows is not notified. An ASK result is {"head":{},"boolean":…}: the old answer is
// removed and the new one added. The triples of a graph are bindings of subject,
// predicate and object.
//
// If the log does not continue from the client's position, because it was trimmed or
// the query has a new epoch, the client cannot be updated row by row. It receives an
// error with status_code 410 and "unsubscribed", and subscribes again. The same
// happens, with other codes, when the query is deleted (404), when a token expires
// (401), when it no longer has the role app (403), and when an operator ends the
// subscription ("dropped", 410).
//
// A connection without a subscription for 30 s is closed with 4408. A message has at
// most 64 KiB until the request, or a subscription, has had a valid token.
//
// Queries run at the default endpoint. Filter and rate are parameters of the
// connection's URL and apply to all its subscriptions, see cursor.ParseParams.
package sepa
