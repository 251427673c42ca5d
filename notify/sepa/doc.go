// Package sepa implements the wire format of SPARQL 1.1 Subscribe over a WebSocket, so that clients of a SEPA broker can
// follow queries: the channel sepa of web/docs/asyncapi.yaml. Subscriptions use the same cursors as all other protocols.
//
// A message has at most 64 KiB until the request, or a subscription, has had a valid token.
package sepa
