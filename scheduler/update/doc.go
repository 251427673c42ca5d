// Package update says when a page is worth probing, given when it is expected to
// change. It is pure.
//
// A notification Rule asks for a notification of every X-th update while that is alive:
// until the next update overwrites it, or for Y chronons. A model of updates
// turns the rule into execution intervals; SUP probes so that each of them has a
// probe in it, with the fewest probes that can do so; a Plan does the same and
// takes feedback (fbSUP): a probe that found the rule unmet brings a new
// interval. Models are lists of chronons: the true updates; these with noise
// (Noisy, the paper's FPN); or the expected times of a piecewise homogeneous
// Poisson process (Rates), whose rates Week learns by hour and weekday.
//
// Source: H. Roitman, A. Gal, L. Bright, L. Raschid, "A dual framework and
// algorithms for targeted data delivery", sections 2 (rules), 3 (SUP), 4.1
// (models) and 5 (fbSUP).
package update
