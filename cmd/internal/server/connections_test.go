// Tests of the live connections of other nodes.

package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/config"
)

// Every node lists, shows, pauses and drops the connections of all nodes.
func TestConnectionsOfAnotherNode(t *testing.T) {
	_, nodes := newMembers(t, 3)
	a, b := nodes[0], nodes[1]
	owner, other := owned(t, nodes)
	var q struct{ ID string }
	a.call("POST", "/v1/queries", map[string]string{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }"}, &q)
	a.call("POST", "/v1/endpoints/city/tick", nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	socket := a.follow(ctx, q.ID, nil)
	receive(t, "the snapshot", socket)
	stream := nodes[2].stream(ctx, q.ID, "")
	type subscription struct{ ID, Way, Query, State string }
	find := func(way string) (x subscription) {
		t.Helper()
		await(t, "it lists a connection by "+way, func() error {
			var page struct{ Subscriptions []subscription }
			b.call("GET", "/v1/subscriptions", nil, &page)
			for _, x = range page.Subscriptions {
				if x.Way == way && x.Query == q.ID {
					return nil
				}
			}
			return fmt.Errorf("%+v", page)
		})
		return x
	}
	x := find("sse")
	if x = find("websocket"); x.State != "active" {
		t.Fatalf("%+v", x)
	}
	path := "/v1/subscriptions/" + x.ID
	var got subscription
	b.call("POST", path+"/pause", nil, &got)
	if got.State != "paused" || got.ID != x.ID {
		t.Errorf("paused: %+v", got)
	}
	if r := b.ask("POST", path+"/pause", ""); r.status != http.StatusConflict {
		t.Errorf("paused twice: %d %s", r.status, r.body)
	}
	for _, n := range nodes {
		if n.call("GET", path, nil, &got); got.State != "paused" {
			t.Errorf("%s: %+v", n.name, got)
		}
	}
	b.call("POST", path+"/resume", nil, &got)
	if got.State != "active" {
		t.Errorf("resumed: %+v", got)
	}
	x = find("sse")
	b.call("DELETE", "/v1/subscriptions/"+x.ID, nil, nil)
	for range stream { // ends
	}
	await(t, "it is gone", func() error {
		for _, n := range nodes {
			if r := n.ask("GET", "/v1/subscriptions/"+x.ID, ""); r.status != http.StatusNotFound {
				return fmt.Errorf("%s: %d %s", n.name, r.status, r.body)
			}
		}
		return nil
	})
	if r := b.ask("DELETE", "/v1/subscriptions/live_none", ""); r.status != http.StatusNotFound {
		t.Errorf("a connection that no node has: %d %s", r.status, r.body)
	}
	// A node that was just restarted finds its last process among the nodes, and does not call it.
	restarted := peers{member: &member{Keeper: other.member.Keeper, conf: owner.member.conf, store: owner.member.store, log: owner.member.log},
		client: owner.peers.client, silent: map[string]time.Time{owner.member.Session(): time.Now().Add(time.Hour)}}
	restarted.waits.Store(owner.peers.waits.Load())
	everywhere(&restarted, request{method: "GET", path: "/v1/subscriptions"}, func(_ struct{}, err error) {
		if err != nil {
			t.Errorf("it asks its last process: %v", err)
		}
	})
	if n, err := restarted.ownerOf(asks("city")); unavailableDetail(err) == "" {
		t.Errorf("it would ask its last process: %+v, %v", n, err)
	}
	for journal, want := range map[string]string{"embedded": "members", "nats://h:1": "NATS", "postgres://h/d": "PostgreSQL"} {
		m := member{conf: config.Cluster{Journal: journal}}
		if got := m.reachable(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", journal, got)
		}
	}
	// A node that does not answer may have it.
	b.peers.mu.Lock()
	for _, n := range nodes {
		b.peers.silent[n.member.Session()] = time.Now().Add(time.Hour)
	}
	b.peers.mu.Unlock()
	if r := b.ask("GET", path, ""); r.status != http.StatusServiceUnavailable {
		t.Errorf("while its node is silent: %d %s", r.status, r.body)
	}
	if r := b.ask("GET", "/v1/subscriptions", ""); r.status != 200 {
		t.Errorf("the list while other nodes are silent: %d %s", r.status, r.body)
	}
}
