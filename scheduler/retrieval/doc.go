// Package retrieval decides how often to retrieve each of many sources, and at what
// times of the day. It is pure.
//
// Sources post at Poisson rates that follow a daily pattern. The delay of a posting
// is the time to the next retrieval.
//
// Source: K. C. Sia, "Efficient Monitoring Algorithm for Fast News Alert": resource
// allocation, expected retrieval delay, multiple retrievals per period.
package retrieval
