package people_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

// things returns a result of IRIs.
func things(names ...string) *diff.Result {
	b := diff.NewBuilder(diff.Select, diff.Options{})
	b.SetVars([]string{"s"})
	for _, name := range names {
		b.Row(diff.Term{Kind: diff.IRI, Value: "http://x.example/" + name})
	}
	r, _ := b.Finish()
	return r
}

// follow adds a watch with two receivers, which waits for its labels until the returned function answers.
func (r *rig) follow(rooms ...*room) (change func(names ...string), answer func(error), asked *atomic.Int32) {
	asked, answers := new(atomic.Int32), make(chan error)
	labels := watch.NewLabels(func(ctx context.Context, _, _ string) (*diff.Result, error) {
		asked.Add(1)
		select {
		case err := <-answers:
			b := diff.NewBuilder(diff.Select, diff.Options{})
			b.SetVars([]string{"iri", "label"})
			b.Row(diff.Term{Kind: diff.IRI, Value: "http://x.example/q2"}, diff.Term{Kind: diff.Literal, Value: "Lise Meitner", Lang: "en"})
			found, _ := b.Finish()
			return found, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, r.now)
	r.stop()
	r.names = labels.Begin
	r.start()
	q := r.log.Add("physicists", diff.Select, false)
	r.watched.Store(&q)
	change = func(names ...string) {
		r.log.Record(q, things(names...), r.now())
		r.waker.Wake(q)
	}
	change("q1")
	for _, h := range rooms {
		r.create(registry.ReceiverRequest{Address: h.address(), Query: q})
	}
	return change, func(err error) { answers <- err }, asked
}

// Messages about a watch wait for the labels of what they tell, which are asked for once. Other messages do not
// wait. A message that is sent again has the same words, whatever labels are known then.
func TestMessagesHaveLabels(t *testing.T) {
	r, one, two, other := newRig(t), newRoom(t), newRoom(t), newRoom(t)
	one.lost = true
	change, answer, asked := r.follow(one, two)
	plainly := r.log.Add("free spaces", diff.Select, false)
	r.record(plainly, "a")
	r.create(registry.ReceiverRequest{Address: other.address(), Query: plainly})
	change("q1", "q2")
	until(t, "a request for labels", func() bool { return asked.Load() == 1 })
	r.record(plainly, "a", "b")
	until(t, "the other message", func() bool { return len(other.messages()) == 1 })
	if got := append(one.messages(), two.messages()...); len(got) > 0 {
		t.Errorf("%q", got)
	}
	answer(nil)
	until(t, "the messages", func() bool { return len(one.messages()) == 1 && len(two.messages()) == 1 })
	for _, h := range []*room{one, two} {
		if got := h.messages()[0]; got != "physicists\n+ Lise Meitner" {
			t.Errorf("%q", got)
		}
	}
	r.stop()
	r.names = plain
	r.start() // no label is known any more
	again := func() int { one.mu.Lock(); defer one.mu.Unlock(); return one.calls }
	before := again()
	until(t, "the message comes again", func() bool { return again() > before+1 }) // the room compares it
	if asked.Load() != 1 {
		t.Errorf("%d requests for labels", asked.Load())
	}
}

// A message is sent without labels if its endpoint has none to give, or takes too long.
func TestMessagesWithoutLabels(t *testing.T) {
	for name, late := range map[string]bool{"failure": false, "hanging": true} {
		t.Run(name, func(t *testing.T) {
			r, h := newRig(t), newRoom(t)
			change, answer, asked := r.follow(h)
			change("q1", "q2")
			until(t, "a request for labels", func() bool { return asked.Load() == 1 })
			if late {
				r.clock.Add(int64(5 * time.Second))
			} else {
				answer(errors.New("no budget left"))
			}
			until(t, "the message", func() bool { return len(h.messages()) == 1 })
			if got := h.messages()[0]; got != "physicists\n+ q2" {
				t.Errorf("%q", got)
			}
			if late {
				answer(nil)
				return
			}
			change("q1", "q2", "q3")
			until(t, "the next message", func() bool { return len(h.messages()) == 2 })
			if got := h.messages()[1]; !strings.HasSuffix(got, "\n+ q3") || asked.Load() != 1 {
				t.Errorf("%q after %d requests for labels", got, asked.Load())
			}
		})
	}
}
