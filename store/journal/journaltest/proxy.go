package journaltest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal"
)

// A Proxy forwards TCP connections to an engine. It can lose answers and cut connections.
type Proxy struct {
	Addr string

	target string
	mute   atomic.Bool
	number atomic.Int64 // of the last connection
	hung   atomic.Int64 // number of the last one that hangs
	mu     sync.Mutex
	conns  map[net.Conn]bool
}

// NewProxy starts a proxy on a free port.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		p.Cut()
	})
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go p.forward(c)
			}
		}
	}()
	return p
}

func (p *Proxy) forward(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close() // the client sees that the server is away
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	to := answers{client, p, p.number.Add(1)}
	end := func() {
		if to.hangs() {
			return // until the proxy ends
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range []net.Conn{client, server} {
			_ = c.Close() // may be closed already
			delete(p.conns, c)
		}
	}
	go func() {
		defer end()
		_, _ = io.Copy(server, client) // ends with either connection
	}()
	defer end()
	_, _ = io.Copy(to, server) // ends with either connection
}

// answers writes to a client unless the proxy loses answers.
type answers struct {
	io.Writer
	p      *Proxy
	number int64 // of the connection
}

// hangs reports whether the connection is one of those that Hang has stopped.
func (a answers) hangs() bool { return a.number <= a.p.hung.Load() }

func (a answers) Write(b []byte) (int, error) {
	if a.p.mute.Load() || a.hangs() {
		return len(b), nil
	}
	return a.Writer.Write(b)
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // may be closed already
	}
}

// Lose loses all answers for a while and then cuts the connections.
func (p *Proxy) Lose(d time.Duration) {
	p.Stall()
	time.Sleep(d)
	p.Resume()
}

// Stall loses all answers from now on.
func (p *Proxy) Stall() { p.mute.Store(true) }

// Resume cuts the connections, and forwards answers again.
func (p *Proxy) Resume() {
	p.Cut()
	p.mute.Store(false)
}

// Hang loses all answers on the connections that are open now, and lets no client see that they end, as if
// the engine's machine had lost its power. New ones are forwarded.
func (p *Proxy) Hang() { p.hung.Store(p.number.Load()) }

// LostAnswers appends commands through a proxy that loses answers. Each command becomes one
// entry, and Append returns its number. direct reads them without the proxy.
func LostAnswers(t *testing.T, name string, proxied, direct journal.Journal, p *Proxy) {
	t.Logf("seed %d", seed)
	const commands, faults = 60, 6
	random := rand.New(rand.NewPCG(seed, 1))
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seqs = map[string]uint64{}
		done atomic.Int64
	)
	for w := range 3 {
		wg.Go(func() {
			for i := range commands / 3 {
				id := fmt.Sprintf("lost-%d-%d", w, i)
				seq, err := proxied.Append(within(t), id, []byte(id))
				if err != nil {
					t.Errorf("append %s: %v", id, err)
					return
				}
				mu.Lock()
				seqs[id] = seq
				mu.Unlock()
				done.Add(1)
			}
		})
	}
	for n := range int64(faults) {
		for end := time.Now().Add(time.Second); done.Load() < 4*n && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
		p.Lose(time.Duration(1+random.IntN(40)) * time.Millisecond)
	}
	t.Logf("%d of %d commands were appended during the faults", done.Load(), commands)
	wg.Wait()
	if t.Failed() {
		return
	}
	list := Take(t, direct, journal.Position{}, commands)
	CheckChain(t, journal.Genesis(name), list)
	for _, e := range list {
		if seqs[e.ID] != e.Seq {
			t.Errorf("%s is entry %d, append returned %d", e.ID, e.Seq, seqs[e.ID])
		}
	}
	if head, err := (patient{direct}).Head(within(t)); err != nil || head.Seq != commands {
		t.Errorf("head %d, %v", head.Seq, err)
	}
}
