package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/nats/natstest"
)

// An acked journal notes when its last batch of outcomes was acknowledged.
type acked struct {
	journal.Journal
	at *moment
}

func (j acked) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	seq, err := j.Journal.Append(ctx, id, cmd)
	if batch := len(cmd) > 1 && cmd[1] == 'R'; batch {
		j.at.first()
	}
	return seq, err
}

// A moment is the first time since it was cleared.
type moment struct {
	mu sync.Mutex
	at time.Time
}

func (m *moment) first() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() {
		m.at = time.Now()
	}
}

func (m *moment) clear() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.at = time.Time{} }()
	return m.at
}

// startCluster starts two workers and a gateway on three embedded journal servers, with an endpoint
// that is asked on request.
func startCluster(b *testing.B) (*sensor, []*node, *moment) {
	b.Helper()
	s, ack := new(sensor), new(moment)
	ep := httptest.NewServer(s)
	b.Cleanup(ep.Close)
	var servers []*nats.Server
	for _, c := range natstest.Configs(b, "test", 3) {
		servers = append(servers, natstest.Start(b, c))
	}
	var list []*node
	for i, role := range []string{"worker", "worker", "gateway"} {
		n := &node{t: b, name: fmt.Sprint("n", i+1), role: role, dir: b.TempDir()}
		n.open = func() journal.Journal {
			nc, err := servers[i].Connect()
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(nc.Close)
			j, err := nats.Open(b.Context(), nc, nats.Config{Name: "test"})
			if err != nil {
				b.Fatal(err)
			}
			return acked{j, ack}
		}
		n.start()
		b.Cleanup(func() { n.stop() })
		list = append(list, n)
	}
	list[0].call("POST", "/v1/endpoints", map[string]any{"name": "city", "url": ep.URL, "slot": "never", "budget": "1m"}, nil)
	await(b, "an owner", func() error {
		if list[0].member.Owner("city") == "" {
			return fmt.Errorf("none")
		}
		return nil
	})
	return s, list, ack
}

// BenchmarkFollow measures when a change reaches WebSocket clients of the endpoint's owner, of
// another worker and of a gateway, from the moment at which the journal has acknowledged it. It
// reports medians: of the gateway also until it has applied the change and wakes the client, and for
// all the time from the endpoint's answer to the acknowledgement. All nodes, the journal's servers
// and the clients are in one process and use one disk, to which each node commits the change. With
// TMPDIR=/dev/shm no time is that of a disk.
func BenchmarkFollow(b *testing.B) {
	s, nodes, ack := startCluster(b)
	var q struct{ ID string }
	nodes[0].call("POST", "/v1/queries", map[string]string{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }", "name": "n"}, &q)
	owner := nodes[0].member.Owner("city")
	if nodes[1].name == owner {
		nodes[0], nodes[1] = nodes[1], nodes[0]
	}
	tick := func() {
		s.value.Add(1)
		nodes[0].call("POST", "/v1/endpoints/city/tick", nil, nil)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	arrived := make([]chan time.Time, len(nodes))
	for i, n := range nodes {
		await(b, "the query", func() error { return n.Call(ctx, "GET", "/v1/queries/"+q.ID, nil, nil) })
		arrived[i] = make(chan time.Time, 10)
		go func() {
			_ = client.Follow(ctx, client.Options{Server: n.URL(), Query: q.ID}, func(e client.Event) error {
				if e.Kind == client.Snapshot || e.Kind == client.Delta {
					arrived[i] <- time.Now()
				}
				return nil
			})
		}()
	}
	tick()
	for i := range nodes {
		receive(b, "the first result", arrived[i])
	}
	woken := nodes[2].Waker.Follow(q.ID)
	defer woken.Close()
	wakes := make(chan time.Time, 10)
	go func() {
		for range woken.C() {
			select {
			case wakes <- time.Now():
			default:
			}
		}
	}()
	var appends, wake []time.Duration
	latency := make([][]time.Duration, len(nodes))
	for b.Loop() {
		for _, n := range nodes { // nothing is left of the slot before
			await(b, "the end of the slot", func() error {
				if at, end := n.Store.Applied(), nodes[0].Store.Applied(); at < end {
					return fmt.Errorf("%d of %d entries are applied", at, end)
				}
				return nil
			})
		}
		for len(wakes) > 0 {
			<-wakes
		}
		ack.clear()
		done := make(chan struct{})
		go func() {
			tick()
			close(done)
		}()
		var times []time.Time
		for i := range nodes {
			times = append(times, receive(b, "a change", arrived[i]))
		}
		woke := receive(b, "a wake-up", wakes)
		answered := *s.answered.Load()
		<-done
		at := ack.clear()
		appends = append(appends, at.Sub(answered))
		wake = append(wake, woke.Sub(at))
		for i, t := range times {
			latency[i] = append(latency[i], t.Sub(at))
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, list := range map[string][]time.Duration{"answer-to-ack": appends, "ack-to-gateway-wake": wake,
		"ack-to-owner": latency[0], "ack-to-worker": latency[1], "ack-to-gateway": latency[2]} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2].Seconds()*1000, "ms/"+name)
	}
}
