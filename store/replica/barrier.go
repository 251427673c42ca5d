// What a node knows to be the newest state of its cluster.

package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/freshet/freshet/store/internal/batch"
	"go.etcd.io/bbolt"
)

// A barrier is a command without effect that this node appends to the journal. A quorum must accept it, and
// this node applies it after everything that was acknowledged before. So a node that is cut off from the
// others, and does not know that yet, cannot take its own state for the newest one. Everybody who asks while
// one barrier is on its way shares the next.
type barrier struct{}

// The shortest times between two barriers of a node. They bound what questions about things that do not exist
// add to the journal, and how much of that strangers do.
const (
	barrierPause  = 5 * time.Millisecond
	strangerPause = 250 * time.Millisecond
)

// barriers are those of some callers of a node.
type barriers struct {
	pause  time.Duration
	queue  batch.Queue[*error] // of what callers are told
	passed time.Time           // when the last one was; used by the run alone
}

const cutOffDetail = "this node is cut off from its cluster and does not know the newest state: ask another node, or ask again later"

const fullNodeDetail = "this node's disk is full, so it does not know the newest state: ask another node, or make room there"

var errFullNode = errors.New("what it contains cannot be applied")

// Confirm waits until this node has applied everything that its cluster had committed when Confirm was
// called. Its error means that this node may lack some of it.
func (r *Replica) Confirm() error { return r.barriers.confirm(r) }

// ConfirmStranger is Confirm for a caller who may read nothing yet. All of them wait for few barriers together.
func (r *Replica) ConfirmStranger() error { return r.strangers.confirm(r) }

func (b *barriers) confirm(r *Replica) (err error) {
	if r.o.full() { // a barrier could not be applied either
		return unavailable(fullNodeDetail, errFullNode)
	}
	if r.Refusal() != nil {
		return unavailable(cutOffDetail, errOutage)
	}
	b.queue.Do(&err, func() {
		select {
		case <-time.After(time.Until(b.passed.Add(b.pause))):
		case <-r.ctx.Done():
		}
		list := b.queue.Take(math.MaxInt)
		err := b.pass(r)
		b.passed = time.Now()
		for _, to := range list {
			*to = err
		}
	})
	return err
}

// pass appends a barrier and waits until it is applied.
func (b *barriers) pass(r *Replica) error {
	_, err := r.Submit(barrierForm)
	if errors.Is(err, ErrNoJournal) {
		return unavailable(cutOffDetail, errOutage)
	}
	return err
}

func (barrier) Resume(*bbolt.Tx) error { return nil }

func (barrier) Apply(*bbolt.Tx) error { return ErrUnchanged }

// ownForm begins the form of a command of the replica itself. Those of the store begin with their version.
const ownForm = 0

// The kinds of such commands.
const (
	kindBarrier byte = 'b'
	kindReport  byte = 'h'
)

var barrierForm = []byte{ownForm, kindBarrier}

func (o *Options) encode(c Command) ([]byte, error) {
	if x, own := c.(*stateReport); own {
		text, err := json.Marshal(x)
		return append([]byte{ownForm, kindReport}, text...), err
	}
	return o.Encode(c)
}

func (o *Options) decode(form []byte) (Command, error) {
	if len(form) < 2 || form[0] != ownForm {
		return o.Decode(form)
	}
	switch form[1] {
	case kindBarrier:
		return barrier{}, nil
	case kindReport:
		if x := new(stateReport); json.Unmarshal(form[2:], x) == nil {
			return x, nil
		}
	}
	return nil, fmt.Errorf("%w: kind %q", ErrForm, form[1])
}

// ErrForm is wrapped by the error of a command that was written by a program of another version.
var ErrForm = errors.New("a command of the journal has a form that this program does not know: " +
	"update this node, or, if other nodes have an older program, update those and run freshet cluster rebuild here")
