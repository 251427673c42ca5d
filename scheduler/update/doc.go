// Package update decides when to probe a page, given the times at which it is
// expected to change. It is pure.
//
// A notification Rule turns a model of updates, a list of chronons, into execution
// intervals. SUP places the smallest number of probes that puts one into each. A Plan does
// the same and accepts feedback (fbSUP). Week learns when updates are to be expected.
//
// Source: H. Roitman, A. Gal, L. Bright, L. Raschid, "A dual framework and
// algorithms for targeted data delivery", sections 2 (rules), 3 (SUP), 4.1
// (models) and 5 (fbSUP).
package update
