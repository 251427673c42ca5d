// What a replica does while its journal does not answer.

package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
)

// journalWait is the default of Options.Patience. Start waits openWaits times as long without
// progress.
const (
	journalWait = 10 * time.Second
	openWaits   = 6
)

// ErrNoJournal is wrapped by the errors of a store whose journal does not answer.
var ErrNoJournal = errors.New("the journal does not answer")

// An outage is the time from a command that was not applied within Options.Patience until the journal
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

// Refusal returns an error during an outage, else nil.
func (r *Replica) Refusal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outage == nil {
		return nil
	}
	return unavailable(outageDetail, errOutage)
}

// suspend begins an outage, or joins it, after a command was not applied in time. err is the
// error of Append, if any.
func (r *Replica) suspend(id string, form []byte, waited time.Duration, err error) error {
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
		r.o.Log.Error("the journal does not answer: nothing is executed or stored until it does; nothing is lost",
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
func (r *Replica) endOutage() {
	err := r.resolve(rand.Text(), barrierForm)
	for err == nil {
		r.mu.Lock()
		id, form := r.outage.next()
		if form == nil {
			r.o.Log.Info("the journal answers again: the server writes again", "after", time.Since(r.outage.began))
			r.outage = nil
		}
		r.mu.Unlock()
		if form == nil {
			return
		}
		if err = r.resolve(id, form); err == nil {
			r.mu.Lock()
			r.outage.forgetCommand(id) // also if it was applied before it was noted, or has no effect
			r.mu.Unlock()
		}
	}
	r.fail(err)
}

// next returns a command with an unknown outcome, nil if there is none. The caller holds the lock of the replica.
func (o *outage) next() (id string, form []byte) {
	if ids := slices.Sorted(maps.Keys(o.unknown)); len(ids) > 0 {
		return ids[0], o.unknown[ids[0]]
	}
	return "", nil
}

// forgetCommand forgets an unknown command that is applied. The caller holds the lock of the replica.
func (o *outage) forgetCommand(id string) {
	if o != nil {
		delete(o.unknown, id)
	}
}

// resolve appends a command until the journal answers, and waits until it is applied, or is known never
// to be. Its error ends the replica.
func (r *Replica) resolve(id string, form []byte) error {
	for {
		ctx, cancel := context.WithTimeout(r.ctx, time.Duration(r.patience.Load()))
		seq, err := r.journal.Append(ctx, id, form)
		cancel()
		switch {
		case err == nil:
			return r.Wait(r.ctx, seq)
		case errors.Is(err, journal.ErrDamaged), errors.Is(err, journal.ErrClosed):
			return err
		case errors.Is(err, journal.ErrTooLarge) && len(form) > len(barrierForm):
			// An earlier attempt comes before the next entry, or it never becomes an entry.
			r.lowerLargest(form)
			id, form = rand.Text(), barrierForm
			continue
		}
		if err := pause(r.ctx); err != nil {
			return err
		}
	}
}

// lowerLargest takes note that the journal refuses a command as too large.
func (r *Replica) lowerLargest(form []byte) {
	r.SetLargest(min(r.Largest(), int64(len(form)-len(form)/8)))
}

// patient returns a context for a write of some size.
func (r *Replica) patient(size int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.waits, time.Duration(r.patience.Load())+time.Duration(size>>20)*time.Second)
}

var errHurry = errors.New("the process ends")

// Hurry bounds how long writes wait for the journal from now on, because the process is about to
// end: those that are not applied by then end with an unknown outcome.
func (r *Replica) Hurry(within time.Duration) {
	time.AfterFunc(within, func() { r.hurry(errHurry) })
}

// opening returns a context that ends when nothing has been applied for long. Until then it logs
// that Start waits.
func (r *Replica) opening() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	go func() {
		every := time.NewTicker(time.Duration(r.patience.Load()) / 2)
		defer every.Stop()
		last, since := r.Position(), time.Now()
		for ticks := 1; ; ticks++ { // the time in which the process is stopped does not count
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			waited := time.Since(since)
			switch applied := r.Position(); {
			case applied > last:
				last, since, ticks = applied, time.Now(), 0
				r.o.Log.Info("applying what the journal contains", "applied", applied)
			case ticks > 2*openWaits:
				cancel(fmt.Errorf("nothing came from it in %s: start the other members, and check cluster.journal and cluster.peers",
					waited.Round(time.Millisecond)))
				return
			default:
				r.o.Log.Warn("waiting for the journal: a majority of the members must run", "applied", applied, "waited", waited)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Position returns the number of the last entry that was applied.
func (r *Replica) Position() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied
}
