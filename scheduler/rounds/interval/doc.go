// Package interval decides what to probe next so that as many complex execution
// intervals as possible are captured. It is pure and uses no clock, disk or
// goroutine; the caller passes the current chronon and the probes.
//
// An execution interval (EI) asks for one probe of a resource between two
// chronons, both included. A complex execution interval (CEI) is a set of EIs. It
// is captured when each of its EIs is. If one of them ends without a probe, the CEI
// has expired and its other EIs need no more probes. One probe captures every
// active EI of its resource.
//
// A Pool holds the open CEIs and processes one chronon after the other. A caller with a
// budget takes as many claims of its order as it can pay for and then reports the probes.
//
// Source: H. Roitman, A. Gal, L. Raschid, "Query scheduling in the presence of
// complex user profiles", sections 2.1 (model) and 3.1 (policies).
package interval
