// What a replica does while its journal does not answer.

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
	"go.etcd.io/bbolt"
)

// journalWait is the default of Options.JournalWait. Open waits openWaits times as long without
// progress.
const (
	journalWait = 10 * time.Second
	openWaits   = 6
)

// ErrNoJournal is wrapped by the errors of a store whose journal does not answer.
var ErrNoJournal = errors.New("the journal does not answer")

// An outage is the time from a command that was not applied within JournalWait until the journal
// takes commands again and the outcome of every such command is known. Writes are refused in the
// meantime, because they could be decided on a state that is about to change.
type outage struct {
	began   time.Time
	unknown map[string][]byte // commands that may become entries, by id
}

const (
	outageDetail  = "this node does not reach the journal of its cluster, so nothing can be stored; it goes on by itself"
	unknownDetail = outageDetail + ". It is not known yet whether this was stored: look before you send it again"
)

// unavailable returns the error of a write that the journal did not take in time.
func unavailable(detail string, cause error) error {
	return fmt.Errorf("%w: %w (%w): %w", registry.ErrReadOnly, ErrNoJournal, cause,
		&registry.Problem{Kind: registry.KindUnavailable, Detail: detail, RetryAfter: 5 * time.Second})
}

var errOutage = errors.New("it has not answered since an earlier write")

// refusal returns an error during an outage, else nil.
func (r *replica) refusal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outage == nil {
		return nil
	}
	return unavailable(outageDetail, errOutage)
}

// suspend begins an outage, or joins it, after a command was not applied in time. err is the
// error of Append, if any.
func (r *replica) suspend(id string, form []byte, waited time.Duration, err error) error {
	cause := err
	if err == nil {
		cause = errors.New("it has the command, which this node has not applied yet")
	}
	detail := outageDetail
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return r.why(r.ctx)
	}
	if r.outage == nil {
		r.outage = &outage{began: time.Now(), unknown: map[string][]byte{}}
		r.file.log.Error("the journal does not answer: nothing is executed or stored until it does; nothing is lost",
			"waited", waited, "error", cause)
		r.done.Go(r.endOutage)
	}
	if err == nil || errors.Is(err, journal.ErrUnknown) {
		r.outage.unknown[id] = form
		detail = unknownDetail
	}
	return unavailable(detail, cause)
}

// endOutage waits until the journal takes a command, and until every command with an unknown
// outcome is applied. Such a command is appended again under its id, so it has its effect once. If
// the journal refuses it as too large, it has none.
func (r *replica) endOutage() {
	probe, err := encodeCommand(new(purgeStep)) // a step that is over has no effect
	if err == nil {
		err = r.resolve(randomText(15), probe)
	}
	for err == nil {
		r.mu.Lock()
		o := r.outage
		ids := slices.Sorted(maps.Keys(o.unknown))
		if len(ids) == 0 {
			r.outage = nil
		}
		r.mu.Unlock()
		if len(ids) == 0 {
			r.file.log.Info("the journal answers again: the server writes again", "after", time.Since(o.began))
			return
		}
		for _, id := range ids {
			if err = r.resolve(id, o.form(r, id)); err != nil {
				break
			}
		}
	}
	r.fail(err)
}

// form returns an unknown command, nil if it was applied meanwhile.
func (o *outage) form(r *replica, id string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return o.unknown[id]
}

// settled forgets an unknown command that is applied. The caller holds the lock of the replica.
func (o *outage) settled(id string) {
	if o != nil {
		delete(o.unknown, id)
	}
}

// resolve appends a command until the journal answers, and waits until it is applied. nil is no
// command. Its error ends the replica.
func (r *replica) resolve(id string, form []byte) error {
	refused := ""
	for form != nil {
		ctx, cancel := context.WithTimeout(r.ctx, r.patience)
		seq, err := r.journal.Append(ctx, id, form)
		cancel()
		switch {
		case err == nil:
			if err = r.wait(r.ctx, seq); err == nil && refused != "" {
				r.forget(refused)
			}
			return err
		case errors.Is(err, journal.ErrDamaged), errors.Is(err, journal.ErrClosed):
			return err
		case errors.Is(err, journal.ErrTooLarge) && refused == "":
			// An earlier attempt comes before the next entry, or it never becomes an entry.
			r.takeLess(form)
			refused, id = id, randomText(15)
			if form, err = encodeCommand(new(purgeStep)); err != nil {
				return err
			}
			continue
		}
		if err := pause(r.ctx); err != nil {
			return err
		}
	}
	return nil
}

// forget forgets an unknown command that is no entry of the journal.
func (r *replica) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outage.settled(id)
}

// takeLess takes note that the journal refuses a command as too large.
func (r *replica) takeLess(form []byte) {
	r.largest.Store(min(r.largest.Load(), int64(len(form)-len(form)/8)))
}

// patient returns a context for a write of some size.
func (r *replica) patient(size int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.waits, r.patience+time.Duration(size>>20)*time.Second)
}

var errHurry = errors.New("the process ends")

// Hurry bounds how long writes wait for the journal from now on, because the process is about to
// end: those that are not applied by then end with an unknown outcome. Without a journal it has no
// effect.
func (d *DB) Hurry(within time.Duration) {
	if r := d.replica; r != nil {
		time.AfterFunc(within, func() { r.hurry(errHurry) })
	}
}

// opening returns a context that ends when nothing has been applied for long. Until then it logs
// that Open waits.
func (r *replica) opening() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	go func() {
		every := time.NewTicker(r.patience / 2)
		defer every.Stop()
		last, since := r.position(), time.Now()
		for ticks := 1; ; ticks++ { // the time in which the process is stopped does not count
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			waited := time.Since(since)
			switch applied := r.position(); {
			case applied > last:
				last, since, ticks = applied, time.Now(), 0
				r.file.log.Info("applying what the journal contains", "applied", applied)
			case ticks > 2*openWaits:
				cancel(fmt.Errorf("nothing came from it in %s: start the other members, and check cluster.journal and cluster.peers",
					waited.Round(time.Millisecond)))
				return
			default:
				r.file.log.Warn("waiting for the journal: a majority of the members must run", "applied", applied, "waited", waited)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// position returns the number of the last entry that was applied.
func (r *replica) position() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied
}

// What a node knows to be the newest state of its cluster.

// A barrier is a command without effect that this node appends to the journal. A quorum must accept it, and
// this node applies it after everything that was acknowledged before. So a node that is cut off from the
// others, and does not know that yet, cannot take its own state for the newest one. Everybody who asks while
// one barrier is on its way shares the next.
type barrier struct {
	done chan struct{}
	err  error // valid once done is closed
}

// The shortest times between two barriers of a node. They bound what questions about things that do not exist
// add to the journal, and how much of that strangers do.
const (
	barrierPause  = 5 * time.Millisecond
	strangerPause = 250 * time.Millisecond
)

// barriers are those of some callers of a node. The lock of the replica guards them.
type barriers struct {
	next    *barrier // that is not appended yet; nil without callers that wait
	passing bool     // one is in the journal, or was a pause ago
}

const cutOffDetail = "this node is cut off from its cluster and does not know the newest state: ask another node, or ask again later"

const fullNodeDetail = "this node's disk is full, so it does not know the newest state: ask another node, or make room there"

var errFullNode = errors.New("what it contains cannot be applied")

// Confirm waits until this node has applied everything that its cluster had committed when Confirm was
// called. Its error means that this node may lack some of it. Without a journal it does nothing.
func (d *boltFile) Confirm() error {
	if d.replica == nil {
		return nil
	}
	return d.replica.confirm(&d.replica.barriers, barrierPause)
}

// confirmStranger is Confirm for a caller who may read nothing yet. All of them wait for few barriers together.
func (d *boltFile) confirmStranger() error {
	if d.replica == nil {
		return nil
	}
	return d.replica.confirm(&d.replica.strangers, strangerPause)
}

func (r *replica) confirm(list *barriers, pause time.Duration) error {
	if r.file.disk.refusal() != nil { // a barrier could not be applied either
		return unavailable(fullNodeDetail, errFullNode)
	}
	r.mu.Lock()
	if r.outage != nil {
		r.mu.Unlock()
		return unavailable(cutOffDetail, errOutage)
	}
	if list.next == nil {
		list.next = &barrier{done: make(chan struct{})}
	}
	b := list.next
	if !list.passing && r.ctx.Err() == nil {
		list.passing = true
		r.done.Go(func() { r.passBarriers(list, pause) })
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
func (r *replica) passBarriers(list *barriers, pause time.Duration) {
	for {
		r.mu.Lock()
		b := list.next
		list.next, list.passing = nil, b != nil
		r.mu.Unlock()
		if b == nil {
			return
		}
		b.err = r.pass()
		close(b.done)
		select {
		case <-time.After(pause):
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
