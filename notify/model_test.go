package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/notify/notifytest"
)

// The truth is every result that a query ever had, by seq.
type truth struct {
	mu   sync.Mutex
	docs map[string][][]byte // query → document at seq-1

	folded atomic.Bool // a message had several changes
}

func (w *truth) at(query string, seq uint64) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if docs := w.docs[query]; seq > 0 && seq <= uint64(len(docs)) {
		return docs[seq-1]
	}
	return nil
}

// A breakingConn breaks after so many bytes in either direction, and may read slowly.
type breakingConn struct {
	net.Conn
	left *int
	slow time.Duration
}

var errCut = errors.New("cut")

func (b *breakingConn) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		b.Conn.Close()
		return 0, errCut
	}
	time.Sleep(b.slow)
	n, err := b.Conn.Read(p[:min(len(p), *b.left, 700)])
	*b.left -= n
	return n, err
}

// TestModel: clients of every kind, cut off at random and resuming, see every
// change exactly once, in order, and always hold the truth, byte for byte.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := newRig(t, func(o *notify.Options) {
		o.Limits.Fold, o.Limits.Part, o.Limits.Window = 3, 100, 2
		o.Timing.Ping = 50 * time.Millisecond
	})
	kinds := []struct {
		form    diff.Form
		ordered bool
	}{{diff.Select, false}, {diff.Select, true}, {diff.Ask, false}, {diff.Construct, false}}
	w := &truth{docs: map[string][][]byte{}}
	rnd := rand.New(rand.NewPCG(seed, 1))
	var ids []string
	for i, k := range kinds {
		id := r.log.Add(fmt.Sprintf("q%d", i), k.form, k.ordered)
		ids = append(ids, id)
		w.record(r, id, notifytest.Random(rnd, k.form, k.ordered))
	}
	const steps = 150
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var wg sync.WaitGroup
	for n := range 24 {
		wg.Go(func() {
			f := &modelFollower{t: t, r: r, w: w, query: ids[n%len(ids)], n: n, rnd: rand.New(rand.NewPCG(seed, uint64(n+2)))}
			f.run(ctx, steps)
		})
	}
	for i := range steps {
		for j, k := range kinds {
			// Until it changes, so that all queries end at the same seq.
			for !w.record(r, ids[j], notifytest.Random(rnd, k.form, k.ordered)) {
			}
		}
		if i%10 == 0 {
			time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
		}
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if !w.folded.Load() {
		t.Error("nothing was folded")
	}
}

func (w *truth) record(r *rig, id string, res *diff.Result) bool {
	w.mu.Lock()
	changed := r.log.Record(id, res, time.Now())
	if changed {
		w.docs[id] = append(w.docs[id], res.Document())
	}
	w.mu.Unlock()
	r.waker.Wake(id)
	return changed
}

// A modelFollower follows one query and compares everything it receives with the log.
type modelFollower struct {
	t     *testing.T
	r     *rig
	w     *truth
	query string
	n     int
	rnd   *rand.Rand

	state   *client.State
	seen    uint64 // up to here every change was covered
	started bool
}

var errEnough = errors.New("enough")

// run follows in several connections: each resumes from the state of the previous
// one.
func (f *modelFollower) run(ctx context.Context, steps int) {
	for last := uint64(steps + 1); f.seen < last; {
		life := 1 + f.rnd.IntN(30)
		o := client.Options{Server: f.r.http.URL, Query: f.query, From: f.state, Ack: f.n%3 == 0,
			MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, Dialer: f.dialer()}
		if f.n%5 == 0 {
			o.Rate = 3 * time.Millisecond
		}
		err := client.Follow(ctx, o, func(e client.Event) error {
			f.check(e)
			if life--; life == 0 || f.seen == last || f.t.Failed() {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) || f.t.Failed() {
			f.t.Errorf("follower %d at %d: %v", f.n, f.seen, err)
			return
		}
	}
}

func (f *modelFollower) dialer() *websocket.Dialer {
	return &websocket.Dialer{ReadBufferSize: 512, NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		left := 1000 + f.rnd.IntN(30_000)
		b := &breakingConn{Conn: c, left: &left}
		if f.n%4 == 3 {
			b.slow = time.Duration(f.rnd.IntN(3)) * time.Millisecond
		}
		return b, nil
	}}
}

func (f *modelFollower) check(e client.Event) {
	switch e.Kind {
	case client.Subscribed:
		if e.Resumed != f.started || e.Reason != "" {
			f.t.Errorf("follower %d: resumed=%v %s", f.n, e.Resumed, e.Reason)
		}
	case client.Snapshot:
		if f.started {
			f.t.Errorf("follower %d: a snapshot at %d although the log reaches back", f.n, e.State.Seq)
		}
		f.started, f.seen = true, e.State.Seq
	case client.Delta:
		if e.Prev != f.seen || e.State.Seq <= e.Prev {
			f.t.Errorf("follower %d: (%d, %d] after %d", f.n, e.Prev, e.State.Seq, f.seen)
		}
		if f.seen = e.State.Seq; f.seen > e.Prev+1 {
			f.w.folded.Store(true)
		}
	case client.Alive:
		if e.State.Seq < f.seen {
			f.t.Errorf("follower %d: alive at %d after %d", f.n, e.State.Seq, f.seen)
		}
		f.seen = e.State.Seq
	}
	if e.Result == nil {
		return
	}
	if want := f.w.at(f.query, e.State.Seq); !bytes.Equal(e.Result.Document(), want) {
		f.t.Errorf("follower %d at %d: holds\n%s, the truth is\n%s", f.n, e.State.Seq, e.Result.Document(), want)
	}
	f.state = &e.State
}
