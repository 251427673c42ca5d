package cluster

// This file describes the state of a cluster as one node sees it.

import (
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
)

// Status returns the state of the cluster as this node sees it. head is the end of the journal.
func (k *Keeper) Status(head uint64) (registry.ClusterStatus, error) {
	nodes, leases, now, err := k.look()
	own := k.report()
	s := registry.ClusterStatus{Node: own.Name, Applied: own.Applied, Head: head}
	for _, n := range nodes {
		if n.Session == own.Session {
			n.Applied, n.Takeovers, n.Fenced = own.Applied, own.Takeovers, own.Fenced
		}
		x := registry.NodeStatus{Name: n.Name, State: registry.NodeReady, Role: "worker", API: n.API, Applied: n.Applied,
			Takeovers: n.Takeovers, Fenced: n.Fenced}
		s.Takeovers += n.Takeovers
		s.Fenced += n.Fenced
		if n.Gateway {
			x.Role = "gateway"
		}
		switch {
		case n.Session == "":
			x.State = registry.NodeLeft
		case n.Name == k.node.Name && n.Session == k.node.Session && !k.Valid(), !k.lives(n, now):
			x.State = registry.NodeSilent
		case n.Drains:
			x.State = registry.NodeDraining
		}
		x.Lag = max(head, x.Applied) - x.Applied
		for _, l := range leases {
			if l.Session == n.Session && l.Session != "" {
				x.Leases++
			}
		}
		if x.State == registry.NodeReady || x.State == registry.NodeDraining {
			x.Differs = differing(own.Files, n.Files)
		}
		s.Nodes = append(s.Nodes, x)
	}
	for _, l := range leases {
		s.Leases = append(s.Leases, registry.LeaseStatus{Key: l.Key, Node: l.Node, Token: l.Token})
	}
	return s, err
}

// differing returns the settings that have another fingerprint in one list than in the other. An
// endpoint that only one file has does not count, because a file does not remove endpoints.
func differing(a, b string) (names []string) {
	of := map[string]string{}
	for _, x := range strings.Fields(a) {
		name, sum, _ := strings.Cut(x, "=")
		of[name] = sum
	}
	for _, x := range strings.Fields(b) {
		if name, sum, _ := strings.Cut(x, "="); of[name] != "" && of[name] != sum {
			names = append(names, name)
		}
	}
	return names
}

// Has returns the node that has a lease, and its API; "" if there is none.
func (k *Keeper) Has(key string) (n registry.Node, mine bool) {
	nodes, leases, err := k.conf.Leases.Nodes()
	if err != nil {
		return n, false
	}
	for _, l := range leases {
		if l.Key != key {
			continue
		}
		for _, x := range nodes {
			if x.Name == l.Node && x.Session == l.Session {
				return x, x.Session == k.node.Session
			}
		}
	}
	return n, false
}

// HasWorker reports whether there is a node that may own something.
func (k *Keeper) HasWorker() bool {
	nodes, _, now, err := k.look()
	return err != nil || len(k.owning(nodes, now)) > 0
}

// Lives reports whether a node is a member that sends heartbeats. A node that this one has
// seen for less than its TTL counts as one.
func (k *Keeper) Lives(name string) bool {
	nodes, _, now, err := k.look()
	return err != nil || slices.ContainsFunc(nodes, func(n registry.Node) bool { return n.Name == name && k.lives(n, now) })
}
