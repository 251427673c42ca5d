// Package rounds tracks the profiles of an endpoint. It opens their rounds,
// predicts changes, ranks the claims of open intervals in a slot, and ends rounds
// that are captured or expired. It is pure: the caller passes slots, times and
// results.
//
// A Tracker holds the profiles. A scheduler calls BeginSlot, reads the Claims of
// the slot, calls Observe for each complete execution, and calls EndSlot at the
// end. Drain returns what has to be recorded; Load restores it. A slot examines
// open rounds and the profiles that open rounds by time, not every profile.
//
// Package rounds/interval ranks the intervals.
//
// Source: H. Roitman, A. Gal, L. Raschid, "Query scheduling in the presence of
// complex user profiles".
package rounds
