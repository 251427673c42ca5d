package main

// This file holds `freshet cluster`, which shows and manages the nodes of a cluster.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
)

var clusterTable = row{use: "cluster", short: "Show and manage the nodes of a cluster",
	example: "freshet cluster status\nfreshet cluster drain n2",
	rows: []row{
		{use: "status", short: "Show the nodes, how far each is, and what it owns",
			long: `Prints the nodes as the server that answers sees them. The lag is the number of
journal entries that a node had not applied at its last heartbeat. Takeovers and
fenced writes are counted since the process of the node started. Settings that should
be the same on all nodes and differ are named.`,
			example: "freshet cluster status --leases\nfreshet cluster status --json",
			run:     showCluster, flags: []option{{name: "leases", value: false, usage: "also print who has which lease"}}},
		{use: "drain NODE", short: "Give away what a node owns, so that it can be stopped",
			long: `Other nodes take over the endpoints of NODE. The command returns when it owns
nothing. The node still serves clients. It owns endpoints again after a restart.`,
			example: "freshet cluster drain n2",
			run:     drainNode, flags: []option{{name: "wait", value: time.Minute, usage: "how long to wait"}}},
		{use: "rebuild", short: "Replace the data of this node, which is stopped, by that of another node",
			long: `Copies the store of the node that --server names, or else of a running node of
cluster.api, into the data directory of this node. The node continues from there at its next start. Its own store and its part
of an embedded journal are kept with the suffix ` + setAside + `. Use this for a node
whose files are damaged, or that was stopped for more than a day.`,
			example: "freshet cluster rebuild --config freshet.yaml\nfreshet cluster rebuild --server http://10.0.0.1:8080 --config freshet.yaml",
			conf:    rebuildNode},
	}}

func (a *remote) clusterState(ctx context.Context) (s registry.ClusterStatus, err error) {
	err = a.do(ctx, http.MethodGet, "/v1/cluster", nil, &s)
	if p, ok := errors.AsType[*problem](err); ok && p.Status == http.StatusNotFound {
		err = cli.WithCode(cli.ExitNotFound, fmt.Errorf("%s is no node of a cluster: name one with --server", a.base()))
	}
	return s, err
}

func showCluster(a *remote, c *cobra.Command, _ []string) error {
	s, err := a.clusterState(c.Context())
	if err != nil {
		return err
	}
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, s)
	}
	fmt.Fprintf(a.w.Stdout, "cluster %s, seen from %s: entry %d of %d applied; of all nodes: %d takeovers, %d writes fenced\n",
		s.Name, s.Node, s.Applied, s.Head, s.Takeovers, s.Fenced)
	for _, n := range s.Nodes {
		fmt.Fprintf(a.w.Stdout, "%-12s %-9s %-8s leases %-4d lag %-6d takeovers %-4d fenced %-4d %s\n", n.Name, n.State, n.Role,
			n.Leases, n.Lag, n.Takeovers, n.Fenced, n.API)
	}
	for _, n := range s.Nodes {
		if n.Name == s.Node && n.State == registry.NodeSilent {
			fmt.Fprintf(a.w.Stdout, "%s is cut off from the journal, or lags behind it: what it shows of other nodes may be old. Ask "+
				"another node, or see /readyz of this one\n", s.Node)
		}
		if len(n.Differs) > 0 {
			fmt.Fprintf(a.w.Stdout, "the settings of %s differ from those of %s: %s\n", n.Name, s.Node, strings.Join(n.Differs, ", "))
		}
	}
	for _, l := range s.Leases {
		if isOn(c, "leases") {
			fmt.Fprintf(a.w.Stdout, "%-30s %-12s token %d\n", l.Key, l.Node, l.Token)
		}
	}
	return nil
}

func drainNode(a *remote, c *cobra.Command, args []string) error {
	if _, err := a.clusterState(c.Context()); err != nil {
		return err
	}
	if err := a.do(c.Context(), http.MethodPost, "/v1/cluster/nodes/"+url.PathEscape(args[0])+"/drain", nil, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), durationOf(c, "wait"))
	defer cancel()
	for {
		s, err := a.clusterState(ctx)
		i := slices.IndexFunc(s.Nodes, func(n registry.NodeStatus) bool { return n.Name == args[0] })
		if err == nil && i >= 0 && s.Nodes[i].Leases == 0 {
			if a.asJSON {
				return cli.PrintJSON(a.w.Stdout, s.Nodes[i])
			}
			fmt.Fprintf(a.w.Stderr, "%s owns nothing now\n", args[0])
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil && i >= 0 {
				err = fmt.Errorf("%s has %d leases still: is another worker ready? See freshet cluster status", args[0], s.Nodes[i].Leases)
			}
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// setAside is the suffix of what rebuild replaces.
const setAside = ".before-rebuild"

func rebuildNode(a *remote, c *cobra.Command, s *config.Flags) error {
	conf, err := s.Load(a.w)
	if err != nil {
		return err
	}
	if !conf.Cluster.On() {
		return cli.UsageErrorf("cluster.name: this configuration is not that of a node of a cluster")
	}
	if namesServer(a) && conf.PublicURL == a.base() {
		return cli.UsageErrorf("--server: %s is this node: name another one", a.base())
	}
	path := filepath.Join(conf.Data, store.File)
	if store.InUse(path) {
		return cli.UsageErrorf("%s is in use: stop this node first", path)
	}
	if err := os.MkdirAll(conf.Data, 0o700); err != nil {
		return err
	}
	from, err := rebuildFrom(c.Context(), a, &conf.Cluster)
	if err != nil {
		return err
	}
	fresh := path + ".rebuilt"
	n, err := a.backup(c.Context(), fresh)
	if err != nil {
		return err
	}
	for _, old := range []string{path, filepath.Join(conf.Data, "journal")} {
		if err := os.RemoveAll(old + setAside); err != nil {
			return err
		}
		if err := os.Rename(old, old+setAside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, map[string]any{"file": path, "bytes": n, "node": from.Node, "server": a.base(),
			"applied": from.Applied})
	}
	fmt.Fprintf(a.w.Stderr, "%s is a copy of the store of %s (%s), which had applied entry %d: start this node\n", path, from.Node,
		a.base(), from.Applied)
	return nil
}

// namesServer reports whether the caller names a server.
func namesServer(a *remote) bool { return a.server != "" || a.w.Getenv("FRESHET_SERVER") != "" }

// rebuildFrom sets the server that the node of a configuration copies, and returns its state: that
// which the caller names, or else the one of cluster.api that has applied most.
func rebuildFrom(ctx context.Context, a *remote, c *config.Cluster) (from registry.ClusterStatus, err error) {
	servers, named, best := []string{a.base()}, namesServer(a), ""
	if !named {
		delete(c.API, c.Node)
		servers = slices.Sorted(maps.Values(c.API))
	}
	for _, a.server = range servers {
		bound, cancel := context.WithTimeout(ctx, 5*time.Second) // for a node
		s, e := a.clusterState(bound)
		cancel()
		switch {
		case e != nil:
		case s.Name != c.Name:
			e = cli.UsageErrorf("--server: %s is a node of the cluster %s, and cluster.name of this configuration is %s", a.base(), s.Name,
				c.Name)
		case s.Node == c.Node:
			e = cli.UsageErrorf("--server: %s is this node, %s: name another one", a.base(), s.Node)
		case best == "" || s.Applied > from.Applied:
			best, from = a.server, s
		}
		err = errors.Join(err, e)
	}
	switch a.server = best; {
	case best != "":
		return from, nil
	case named:
		return from, err
	case err != nil:
		return from, fmt.Errorf("no node of cluster.api answers: name a running node with --server\n%w", err)
	}
	return from, cli.UsageErrorf("--server: name a running node of the cluster %s, or list the nodes under cluster.api", c.Name)
}
