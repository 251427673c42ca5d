// Package trace holds histories of query results: the result of every query in
// every revision of a dataset, and the time of each execution.
//
// A Trace comes from Generate (synthetic, with published statistics), from a
// Recording of an endpoint while its dataset changes, or from a file. A file has
// the exchange format in JSON (ReadJSON, WriteJSON) or the form of
// trace files, JSON lines in zstd (Writer). Load tells them apart by their first bytes.
package trace
