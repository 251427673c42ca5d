// Package sepa speaks the wire format of SPARQL 1.1 Subscribe over a WebSocket,
// so that clients written for a SEPA follow queries here. A subscription is the
// same cursor over the change log as everywhere else; the format knows no
// positions, so a client that comes back begins with the whole result.
//
//	→ {"subscribe":{"sparql","alias"?,"authorization"?,"default-graph-uri"?,"named-graph-uri"?}}
//	← {"notification":{"spuid","alias"?,"sequence":0,"addedResults","removedResults"}}
//	→ {"unsubscribe":{"spuid","authorization"?}}
//	← {"unsubscribed":{"spuid"}}
//	← {"error","status_code","error_description","alias"?}
//
// The first notification has sequence 0 and the whole result as addedResults;
// before the first result there is none, and the baseline becomes the first.
// Each one after it has the next number and one change, or several folded into
// their exact sum for a client that lags.
//
// Results are bags: a row that occurs twice is listed twice, a variable without
// a value is absent, and removedResults takes away as many copies as it lists.
// Blank node labels are canonical. A result has no order here: an ordered
// query's mere reorder is no notification. ASK is {"head":{},"boolean":…}: the
// old answer is removed, the new one added. A graph's triples are bindings of
// subject, predicate and object.
//
// When the log does not continue where a client is (it was trimmed, or the
// query's history began again), what the client has can no longer be made to go
// away row by row: it gets an error with status_code 410 and "unsubscribed", and
// subscribes again. The same happens, with other codes, when the query ends
// (404), when a token does (401), and with the error "dropped" (410) when
// an operator ends the subscription at the server.
//
// A connection on which nothing is subscribed to for 30 s is closed with 4408.
//
// The endpoint is the default one. Filter and rate are parameters of the
// connection's URL and hold for all its subscriptions, see cursor.ParseParams.
package sepa
