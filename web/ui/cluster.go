package ui

// This file shows the nodes of the cluster.

import (
	"net/url"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
)

// A clusterPage shows the nodes, and which node asks which endpoint.
type clusterPage struct {
	registry.ClusterStatus
	Rows      []nodeRow
	Ready     int      // nodes that are
	Members   int      // nodes that have not left
	Silent    []string // nodes that send no heartbeats
	Cut       bool     // this node is cut off from the journal, or lags behind it
	Behind    uint64   // entries of the journal that this node has not applied
	Endpoints []overviewEndpoint
	Unowned   int                   // endpoints that no node asks
	Differing []registry.NodeStatus // nodes whose settings differ from those of this node
	Shares    int                   // of the hosts of callbacks
}

// A nodeRow is a node with what it owns.
type nodeRow struct {
	registry.NodeStatus
	Class     string // of its state
	Here      bool   // it shows this page
	Endpoints int
	Callbacks int // shares of the hosts of callbacks
	Alerts    bool
	Journal   bool   // it drops old entries of the journal
	Drain     string // path of the form, "" if another node could not take over
}

// nodeClasses are the looks of the states of nodes.
var nodeClasses = map[registry.NodeState]string{registry.NodeReady: "live", registry.NodeDraining: "paused",
	registry.NodeSilent: "failing", registry.NodeLeft: "off"}

func (v clusterHandler) page() (content, error) {
	s, err := v.Cluster.Status()
	if err != nil {
		return content{}, err
	}
	o, err := v.Outlook()
	if err != nil {
		return content{}, err
	}
	p := &clusterPage{ClusterStatus: s, Members: o.Members, Silent: o.Silent, Behind: max(s.Head, s.Applied) - s.Applied}
	workers := 0
	for _, n := range s.Nodes {
		if n.State == registry.NodeReady && n.Role == "worker" {
			workers++
		}
	}
	for _, l := range s.Leases {
		if strings.HasPrefix(l.Key, "delivery/") {
			p.Shares++
		}
	}
	for _, n := range s.Nodes {
		r := nodeRow{NodeStatus: n, Class: nodeClasses[n.State], Here: n.Name == s.Node}
		owned := s.Owned(n.Name)
		r.Endpoints, r.Callbacks, r.Alerts, r.Journal = owned["endpoint"], owned["delivery"], owned["alerts"] > 0, owned["journal"] > 0
		if n.State == registry.NodeReady && n.Role == "worker" && workers > 1 {
			r.Drain = "/cluster/nodes/" + url.PathEscape(n.Name) + "/drain"
		}
		if n.State == registry.NodeReady {
			p.Ready++
		}
		if len(n.Differs) > 0 {
			p.Differing = append(p.Differing, n)
		}
		p.Cut = p.Cut || r.Here && n.State == registry.NodeSilent
		p.Rows = append(p.Rows, r)
	}
	all, err := v.Registry.Endpoints()
	if err != nil {
		return content{}, err
	}
	if p.Endpoints, _, err = endpointHandler(v).states(all, hydroSlots); err != nil {
		return content{}, err
	}
	for _, o := range p.Endpoints {
		if o.Node == "" {
			p.Unowned++
		}
	}
	slices.SortStableFunc(p.Endpoints, func(a, b overviewEndpoint) int { return strings.Compare(a.Node, b.Node) })
	return content{Data: p, Live: []part{{"cluster-now", "cluster-now", p}}}, nil
}

// drain makes a node give away what it owns.
func (v clusterHandler) drain() error {
	name := v.r.PathValue("name")
	if err := v.Cluster.Drain(name); err != nil {
		return err
	}
	v.say("good", "node-drains", name, "")
	return v.to("/cluster")
}
