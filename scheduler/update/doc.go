// Package update decides when to probe a page, given the times at which it is
// expected to change. It is pure.
//
// A notification Rule asks for a notification of every X-th update while it is alive:
// until the next update overwrites it, or for Y chronons. A model of updates turns
// the rule into execution intervals. SUP places the smallest number of probes that
// puts one into each interval. A Plan does the same and accepts feedback (fbSUP): a
// probe that found the rule unmet adds an interval. A model is a list of chronons:
// the true updates; the true updates with noise (Noisy, the paper's FPN); or the
// expected times of a piecewise homogeneous Poisson process (Rates). Week learns
// these rates by hour and weekday.
//
// Source: H. Roitman, A. Gal, L. Bright, L. Raschid, "A dual framework and
// algorithms for targeted data delivery", sections 2 (rules), 3 (SUP), 4.1
// (models) and 5 (fbSUP).
package update
