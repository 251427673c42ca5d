package registry

// This file describes the nodes of a cluster.

// A Node is a member of a cluster: a server that shares a journal with the others.
type Node struct {
	Name    string `json:"name"`
	Session string `json:"session,omitempty"` // of its process; "" after it has left
	Beats   uint64 `json:"beats"`             // signs of life so far
	Applied uint64 `json:"applied"`           // the last entry of the journal that it had applied at the last one
	Gateway bool   `json:"gateway,omitempty"` // it owns nothing
	Drains  bool   `json:"drains,omitempty"`  // it gives away what it owns
	API     string `json:"api"`               // where the other nodes reach its API
	TTL     int64  `json:"ttl"`               // how long its leases last without a sign of life, in nanoseconds
}
