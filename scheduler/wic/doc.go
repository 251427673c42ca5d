// Package wic decides, instant by instant, which pages to monitor so that changes
// are captured before they are gone, and as soon as an application needs them.
// It is pure.
//
// In each instant j the C pages with the largest gain are monitored,
//
//	g_i(prev, j) = W_i · Σ_{k=prev+1..j} urgency_i(j−k) · π_{i,k} · life_i(k, j)
//
// where π_{i,k} is the probability that page i changes at instant k, prev its last
// monitoring, life the probability that a change of instant k can still be had at
// j, urgency what it is worth then, and W_i the importance of the page. The sum is
// what monitoring now captures, weighed by age; taking the largest ones never
// captures less than half of what any schedule could, and where only what is
// captured at once counts (sliding window 0) none captures more.
//
// A Pending is the sum of one page. It takes the probabilities one by one, each in
// constant time, with windows constant on average. The sum is never computed from
// scratch and never by subtraction, so no rounding errors remain of what faded. For
// change windows of Z changes the step takes O(Z), with a time window O(Z²).
// Steady is the sum in closed form for a page whose probability stays the same.
//
// Source: S. Pandey, K. Dhamdhere, C. Olston, "WIC: A general-purpose algorithm
// for monitoring web information sources", sections 2.2, 2.3, 3.1 to 3.3.
package wic
