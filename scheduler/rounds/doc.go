// Package rounds follows the profiles of an endpoint: it opens their rounds,
// predicts changes, ranks what open intervals want in a slot, and ends rounds that
// are captured or over. It is pure: the caller passes slots, times and results.
//
// A Tracker holds the profiles. A scheduler calls BeginSlot, takes the Claims of
// the slot, calls Observe for each complete execution and EndSlot at the end.
// Drain returns what has to be recorded; Load restores it. A slot looks at the
// profiles that time opens and at open rounds, not at every profile.
//
// Package rounds/interval ranks the intervals.
//
// Source: H. Roitman, A. Gal, L. Raschid, "Query scheduling in the presence of
// complex user profiles".
package rounds
