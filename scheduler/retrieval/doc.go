// Package retrieval decides how often to retrieve each of many sources, and when
// in the day. It is pure.
//
// Sources post at Poisson rates that follow a daily pattern. The delay of a
// posting is the time to the next retrieval. Allocate divides a number of
// retrievals among sources so that the sum of their expected delays is least when
// each has them evenly spaced; Schedule places the retrievals of one source in
// the day so that its expected delay is least.
//
// Source: K. C. Sia, "Efficient Monitoring Algorithm for Fast News Alert": resource
// allocation, expected retrieval delay, multiple retrievals per period.
package retrieval
