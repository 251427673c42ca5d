package registry

import "strings"

// This file describes the nodes of a cluster.

// A Node is a member of a cluster: a server that shares a journal with the others.
type Node struct {
	Name    string `json:"name"`
	Session string `json:"session,omitempty"` // of its process; "" after it has left
	Beats   uint64 `json:"beats"`             // heartbeats so far
	Applied uint64 `json:"applied"`           // the last entry of the journal that it had applied at the last one
	Gateway bool   `json:"gateway,omitempty"` // it owns nothing
	Drains  bool   `json:"drains,omitempty"`  // it gives away what it owns
	API     string `json:"api"`               // where the other nodes reach its API
	URL     string `json:"url,omitempty"`     // where clients reach it: the prefix of its topics
	Peers   string `json:"peers,omitempty"`   // the members of the journal that it knows
	TTL     int64  `json:"ttl"`               // how long its leases last without a heartbeat, in nanoseconds
	// Takeovers and Fenced are those of NodeStatus, at the last heartbeat.
	Takeovers uint64 `json:"takeovers,omitempty"`
	Fenced    uint64 `json:"fenced,omitempty"`
	// Files has a fingerprint of each setting that nodes compare: "endpoints.city=0a1b limits.queries=2c3d".
	Files string `json:"files,omitempty"`
}

// A ClusterStatus is the state of a cluster as one of its nodes sees it.
type ClusterStatus struct {
	Name      string        `json:"name"`
	Node      string        `json:"node"`    // that answers
	Applied   uint64        `json:"applied"` // the last entry of the journal that it has applied
	Head      uint64        `json:"head"`    // the last entry of the journal
	Nodes     []NodeStatus  `json:"nodes"`
	Leases    []LeaseStatus `json:"leases"`
	Takeovers uint64        `json:"takeovers"` // those of all nodes
	Fenced    uint64        `json:"fenced"`    // those of all nodes
}

// A NodeStatus is the state of a node.
type NodeStatus struct {
	Name    string    `json:"name"`
	State   NodeState `json:"state"`
	Role    string    `json:"role"` // worker or gateway
	API     string    `json:"api"`
	Applied uint64    `json:"applied"` // at its last heartbeat
	Lag     uint64    `json:"lag"`     // entries of the journal that it had not applied by then
	Leases  int       `json:"leases"`
	// Since the process started: leases that it has taken from nodes that were gone, and its writes
	// that were refused because it had lost the lease.
	Takeovers uint64 `json:"takeovers"`
	Fenced    uint64 `json:"fenced"`
	// Differs names the settings whose values differ from those of the node that answers, such as
	// limits.queries and endpoints.city.
	Differs []string `json:"differs,omitempty"`
}

// A NodeState says whether a node takes part in its cluster.
type NodeState string

// The states of nodes.
const (
	NodeReady    NodeState = "ready"
	NodeDraining NodeState = "draining" // it gives away what it owns
	NodeSilent   NodeState = "silent"   // it sends no heartbeats
	NodeLeft     NodeState = "left"     // it was stopped
)

// Owned counts the leases of a node by kind: endpoint, delivery, alerts and journal.
func (s *ClusterStatus) Owned(node string) map[string]int {
	owned := map[string]int{"endpoint": 0, "delivery": 0, "alerts": 0, "journal": 0}
	for _, l := range s.Leases {
		if l.Node == node {
			kind, _, _ := strings.Cut(l.Key, "/")
			owned[kind]++
		}
	}
	return owned
}

// A LeaseStatus says who has a lease.
type LeaseStatus struct {
	Key   string `json:"key"`
	Node  string `json:"node"` // "" if no node has it
	Token uint64 `json:"token"`
}
