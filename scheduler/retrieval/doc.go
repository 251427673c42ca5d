// Package retrieval decides how often to retrieve each of many sources, and at what
// times of the day. It is pure.
//
// Sources post at Poisson rates that follow a daily pattern. The delay of a posting
// is the time to the next retrieval. Allocate divides a number of retrievals among
// sources to minimize the sum of their expected delays, with even spacing for each
// source. Schedule places the retrievals of one source in the day to minimize its
// expected delay.
//
// Source: K. C. Sia, "Efficient Monitoring Algorithm for Fast News Alert": resource
// allocation, expected retrieval delay, multiple retrievals per period.
package retrieval
