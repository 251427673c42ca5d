// Package rule evaluates alert rules over the log of a query. It is pure: the times of
// complete answers are its only clock, so a replay of the log gives the same alerts.
//
// web/docs/rules.md describes conditions and times. A row that is removed and one that is added with the same values
// of the variables have not changed. Where the log does not lead to a result, any other result counts as a change.
//
// The log holds changes only. The answers between them that confirmed a result are not recorded. Replay assumes that
// there were enough of them: an alert fires exactly when For has passed.
package rule
