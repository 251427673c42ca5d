// Package interval decides what to probe next so that as many complex execution
// intervals as possible are captured. It is pure: no clock, no disk, no
// goroutine; the caller says which chronon it is and what was probed.
//
// An execution interval (EI) asks for one probe of a resource between two
// chronons, both included. A complex execution interval (CEI) is a set of EIs
// and is captured when each of them is; when one of them ends without a probe,
// the CEI has expired and its other EIs ask for nothing more. One probe captures
// every active EI of its resource.
//
// An Agenda holds the open CEIs and serves one chronon after the other:
//
//	a := interval.NewAgenda[int](interval.Ranking{Kind: interval.MRSF, Preemptive: true})
//	err := a.Open(interval.CEI[int]{ID: 7, Rank: 2, EIs: eis})
//	for _, lost := range a.Advance(t) { … }     // chronon t begins: starts and expiries
//	for claim := range a.Order() { … }          // resources, the most urgent first
//	for _, hit := range a.Probe(resource) { … } // hit.Left == 0: captured
//
// The order is that of the current chronon: a caller with a budget takes as
// many claims as it can pay for, and reports the probes afterwards. Reading the
// order changes nothing, and reading its first k entries costs O(k log k)
// however many intervals are open. Advance costs O(log n) for each EI that
// starts or ends, Probe O(r log n) for each one captured, where r is the number
// of EIs in its CEI; nothing is paid for what does not change.
//
// R is any comparable type that identifies resources to the caller. CEIs are plain
// data; Resume makes an agenda again after a restart or for another ranking.
//
// Source: H. Roitman, A. Gal, L. Raschid, "Query scheduling in the presence of
// complex user profiles", sections 2.1 (model) and 3.1 (policies).
package interval
