// What a node knows to be the newest state of its cluster.

package store

import (
	"errors"
	"time"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// A barrier is a command without effect that this node appends to the journal. A quorum must accept it, and
// this node applies it after everything that was acknowledged before. So a node that is cut off from the
// others, and does not know that yet, cannot take its own state for the newest one. Everybody who asks while
// one barrier is on its way shares the next.
type barrier struct {
	done chan struct{}
	err  error // valid once done is closed
}

// barrierPause is the shortest time between two barriers of a node. It bounds what questions about things that
// do not exist add to the journal.
const barrierPause = 5 * time.Millisecond

const cutOffDetail = "this node is cut off from its cluster and does not know the newest state: ask another node, or ask again later"

const fullNodeDetail = "this node's disk is full, so it does not know the newest state: ask another node, or make room there"

var errFullNode = errors.New("what it contains cannot be applied")

// Confirm waits until this node has applied everything that its cluster had committed when Confirm was
// called. Its error means that this node may lack some of it. Without a journal it does nothing.
func (d *boltFile) Confirm() error {
	if d.replica == nil {
		return nil
	}
	return d.replica.confirm()
}

func (r *replica) confirm() error {
	if r.file.disk.refusal() != nil { // a barrier could not be applied either
		return unavailable(fullNodeDetail, errFullNode)
	}
	r.mu.Lock()
	if r.outage != nil {
		r.mu.Unlock()
		return unavailable(cutOffDetail, errOutage)
	}
	if r.next == nil {
		r.next = &barrier{done: make(chan struct{})}
	}
	b := r.next
	if !r.passing && r.ctx.Err() == nil {
		r.passing = true
		r.done.Go(r.passBarriers)
	}
	r.mu.Unlock()
	select {
	case <-b.done:
		return b.err
	case <-r.ctx.Done():
		return r.why(r.ctx)
	}
}

// passBarriers appends one barrier after the other while somebody waits.
func (r *replica) passBarriers() {
	for {
		r.mu.Lock()
		b := r.next
		r.next, r.passing = nil, b != nil
		r.mu.Unlock()
		if b == nil {
			return
		}
		b.err = r.pass()
		close(b.done)
		select {
		case <-time.After(barrierPause):
		case <-r.ctx.Done():
		}
	}
}

// pass appends a barrier and waits until it is applied.
func (r *replica) pass() error {
	form, err := encodeCommand(new(purgeStep)) // a step that is over has no effect
	if err == nil {
		_, err = r.submit(form)
	}
	switch {
	case err == errMoved:
		return nil
	case errors.Is(err, ErrNoJournal):
		return unavailable(cutOffDetail, errOutage)
	}
	return err
}

// newest is like fetch. If the error of f may only mean that this node lags, it reads again once this node
// knows that it does not.
func newest[T any](d *boltFile, f func(tx *bbolt.Tx) (T, error)) (T, error) {
	v, err := fetch(d, f)
	if d.replica == nil || !mayLag(err) {
		return v, err
	}
	if err := d.Confirm(); err != nil {
		return v, err
	}
	return fetch(d, f)
}

// newestView is like newest for a function that keeps what it finds. f starts from the beginning when it is called again.
func newestView(d *boltFile, f func(tx *bbolt.Tx) error) error {
	_, err := newest(d, func(tx *bbolt.Tx) (struct{}, error) { return struct{}{}, f(tx) })
	return err
}

// mayLag reports whether the answer of a node that is up to date may be another one.
func mayLag(err error) bool {
	var gap *registry.GapError
	var problem *registry.Problem
	return errors.Is(err, registry.ErrNotFound) || errors.As(err, &gap) && gap.Reason != registry.TooOld ||
		errors.As(err, &problem) && problem.Kind == registry.KindNoResult
}
