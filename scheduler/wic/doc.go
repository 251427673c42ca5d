// Package wic decides in each instant which pages to monitor, so that changes are
// captured before they are lost and as soon as an application needs them. It is
// pure.
//
// In each instant j the C pages with the largest gain are monitored:
//
//	g_i(prev, j) = W_i · Σ_{k=prev+1..j} urgency_i(j−k) · π_{i,k} · life_i(k, j)
//
// Here π_{i,k} is the probability that page i changes at instant k, and prev is the
// instant of its last monitoring. life is the probability that a change of instant k
// is still available at j, urgency is its value then, and W_i is the importance of
// the page. The sum is the expected value of monitoring the page now. Taking the
// largest gains never captures less than half of what the best schedule captures.
// If only immediate captures count (sliding window 0), no schedule captures more.
//
// A Pending maintains the sum of one page. Nothing is subtracted from it, so faded terms
// leave no rounding errors. Steady is its closed form for a page of constant probability.
//
// Source: S. Pandey, K. Dhamdhere, C. Olston, "WIC: A general-purpose algorithm
// for monitoring web information sources", sections 2.2, 2.3, 3.1 to 3.3.
package wic
