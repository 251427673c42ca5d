// The replica, which applies the commands of a journal.

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store/journal"
	"go.etcd.io/bbolt"
)

// Bounds on the entries that share a transaction.
const (
	groupEntries = 256
	groupBytes   = 8 << 20
)

// headPause is the pause between two questions to a journal that does not answer.
const headPause = 100 * time.Millisecond

// A replica applies the commands of a journal to the file, in their order. Two goroutines
// work for it: one reads entries, the other applies them, as many in a transaction as are
// there. The position of the last one is written in the same transaction.
type replica struct {
	file    *boltFile
	journal journal.Journal
	ctx     context.Context // ends with the first failure, which is its cause
	stop    context.CancelCauseFunc
	waits   context.Context // of writes, and of reads of the newest state; ends early by Hurry
	hurry   context.CancelCauseFunc
	done    sync.WaitGroup
	// patience is how long a write, or a read of the newest state, waits for the journal.
	patience time.Duration
	largest  atomic.Int64 // size of a command

	mu        sync.Mutex
	applied   uint64
	moved     chan struct{} // closed and replaced when applied increases
	waiting   map[string]chan answer
	others    others
	foreign   chan struct{} // signals that others is not empty
	outage    *outage       // nil while the journal answers
	barriers  barriers      // of callers who may read
	strangers barriers      // of those who may not, or who must show it first

	name     string // of this process, in reports
	reports  atomic.Bool
	state    stateHash // used by the applier alone, as is what follows
	compared comparison
	reported uint64 // the last entry at which nodes compare
}

// An answer is what became of a command.
type answer struct {
	command command
	err     error
}

// startReplica brings the file to the end of the journal and keeps following it. A file that
// has not followed a journal yet begins one, or joins it if the file is new.
func (d *boltFile) startReplica(j journal.Journal, patience time.Duration) error {
	r := &replica{file: d, journal: j, patience: cmp.Or(patience, journalWait), name: randomText(10),
		moved: make(chan struct{}), waiting: map[string]chan answer{}, foreign: make(chan struct{}, 1)}
	r.largest.Store(journal.MaxCommand)
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	r.waits, r.hurry = context.WithCancelCause(r.ctx)
	at, err := fetch(d, loadApplied)
	if err != nil {
		return err
	}
	if r.state, err = fetch(d, func(tx *bbolt.Tx) (stateHash, error) {
		if tx.Bucket(bMeta).Get(kDiverged) != nil {
			return stateHash{}, errDiverged
		}
		return loadState(tx), nil
	}); err != nil {
		return err
	}
	r.applied, r.reported = at.Seq, r.state.seq
	ctx, cancel := r.opening()
	defer cancel()
	if at == (journal.Position{}) {
		if err := r.begin(ctx); err != nil {
			return r.blame(ctx, err)
		}
	}
	r.follow(at)
	d.replica = r
	if err := r.reach(ctx, at); err != nil {
		r.close()
		return err
	}
	r.reports.Store(true) // those about earlier entries come too late
	return nil
}

// reach waits until the journal is known to continue a position and all of it is applied. An
// end before the position may be out of date; the reader finds out.
func (r *replica) reach(ctx context.Context, at journal.Position) error {
	for {
		head, err := r.head(ctx)
		switch {
		case err != nil:
			return err
		case head.Seq == at.Seq && head.Hash != at.Hash:
			return journal.Foreign(at.Seq)
		case head.Seq >= at.Seq:
			return r.wait(ctx, head.Seq)
		}
		if pause(ctx) != nil {
			return r.why(ctx)
		}
	}
}

// follow starts the goroutines.
func (r *replica) follow(at journal.Position) {
	entries := make(chan journal.Entry, groupEntries)
	r.done.Go(func() {
		err := r.journal.Read(r.ctx, at, func(e journal.Entry) error {
			select {
			case entries <- e:
				return nil
			case <-r.ctx.Done():
				return context.Cause(r.ctx)
			}
		})
		r.fail(err)
	})
	r.done.Go(func() {
		var err error
		for err == nil {
			select {
			case e := <-entries:
				err = r.apply(gather(e, entries))
			case <-r.ctx.Done():
				err = context.Cause(r.ctx)
			}
		}
		r.fail(err)
	})
}

// fail ends the replica. Unless it was closed, the store takes no more writes and the process
// should exit.
func (r *replica) fail(err error) {
	if r.stop(err); !errors.Is(context.Cause(r.ctx), journal.ErrClosed) {
		r.file.breaks(fmt.Errorf("journal: %w", err))
	}
}

// close stops following the journal. Commands that are not applied yet have an unknown outcome.
func (r *replica) close() {
	r.stop(journal.ErrClosed)
	r.done.Wait()
}

// gather returns the entries that may share a transaction with the first one.
func gather(first journal.Entry, more <-chan journal.Entry) []journal.Entry {
	group, size := []journal.Entry{first}, len(first.Command)
	for len(group) < groupEntries && size < groupBytes {
		select {
		case e := <-more:
			group = append(group, e)
			size += len(e.Command)
		default:
			return group
		}
	}
	return group
}

// apply applies entries in one transaction. If one of them fails, each gets a transaction of
// its own. While the disk is full it waits, since no entry may be passed over.
func (r *replica) apply(group []journal.Entry) error {
	answers := make([]answer, len(group))
	for {
		failed, err := r.attempt(group, answers)
		switch {
		case err == nil:
			r.publish(group, answers)
			return r.settle(answers)
		case failed && len(group) > 1:
			for i := range group {
				if err := r.apply(group[i : i+1]); err != nil {
					return err
				}
			}
			return nil
		case failed && !endsReplica(err): // on every node
			answers[0] = answer{err: err}
			if err = r.skip(group[0]); err == nil {
				r.publish(group, answers)
				return r.settle(nil)
			}
		}
		if !errors.Is(err, registry.ErrReadOnly) {
			return fmt.Errorf("apply entry %d: %w", group[0].Seq, err)
		}
		for r.file.disk.refusal() != nil {
			if err := pause(r.ctx); err != nil {
				return err
			}
		}
	}
}

// endsReplica reports whether the error of a command means that this node cannot follow the
// journal. Any other error follows from the command and the state, so it is the same on all
// nodes, and the command has no effect.
func endsReplica(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, errOther) || errors.Is(err, errEmpty)
}

// pause waits for a moment. It returns the cause if ctx ends.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(headPause):
		return nil
	}
}

// attempt runs the transaction of a group. failed reports that the error is that of a command.
func (r *replica) attempt(group []journal.Entry, answers []answer) (failed bool, err error) {
	state := r.state
	err = r.file.edit(func(tx *bbolt.Tx) (bool, error) {
		for i := range group {
			if err := r.one(tx, &group[i], &answers[i]); err != nil {
				failed = true
				return false, err
			}
			state.add(tx, group[i].Seq, answers[i].command, answers[i].err)
		}
		return false, errors.Join(saveApplied(tx, group), state.save(tx))
	})
	if err == nil {
		r.state = state
		r.file.refresh(effective(answers)...)
	}
	return failed && err != nil, err
}

// effective returns the commands that had an effect.
func effective(answers []answer) (list []command) {
	for i := range answers {
		if answers[i].err == nil {
			list = append(list, answers[i].command)
		}
	}
	return list
}

// one applies an entry. An error undoes the transaction.
func (r *replica) one(tx *bbolt.Tx, e *journal.Entry, a *answer) error {
	c, err := r.file.decodeCommand(e.Command)
	if err != nil {
		return err
	}
	if err = c.resume(tx); err == nil {
		err = c.apply(tx)
	}
	*a = answer{command: c}
	switch {
	case err == errMoved, errors.Is(err, scheduler.ErrFenced):
		a.err = err
	case err != nil && err != errUnchanged:
		return err
	}
	return nil
}

// skip records that an entry without effect is applied.
func (r *replica) skip(e journal.Entry) error {
	state := r.state
	err := r.file.edit(func(tx *bbolt.Tx) (bool, error) {
		state.add(tx, e.Seq, nil, errUnchanged)
		return false, errors.Join(saveApplied(tx, []journal.Entry{e}), state.save(tx))
	})
	if err == nil {
		r.state = state
	}
	return err
}

// publish gives answers to those who wait for them, and reports the rest to WatchOthers.
func (r *replica) publish(group []journal.Entry, answers []answer) {
	foreign := false
	r.mu.Lock()
	for i, e := range group {
		r.outage.settled(e.ID)
		if to := r.waiting[e.ID]; to != nil {
			delete(r.waiting, e.ID)
			to <- answers[i]
		} else if answers[i].err == nil {
			answers[i].command.touch(&r.others)
			foreign = true
		}
	}
	r.applied = group[len(group)-1].Seq
	close(r.moved)
	r.moved = make(chan struct{})
	r.mu.Unlock()
	if foreign {
		select {
		case r.foreign <- struct{}{}:
		default:
		}
	}
	r.file.wakePurge()
	r.file.wakeLeases(answers)
}

// wait waits until an entry is applied.
func (r *replica) wait(ctx context.Context, seq uint64) error {
	for {
		r.mu.Lock()
		applied, moved := r.applied, r.moved
		r.mu.Unlock()
		if applied >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return r.why(ctx)
		}
	}
}

// why returns the reason for the end of ctx.
func (r *replica) why(ctx context.Context) error {
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoJournal, context.Cause(ctx))
}

// blame returns err with the reason for the end of ctx, if it has ended.
func (r *replica) blame(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ErrNoJournal) {
		return err
	}
	return fmt.Errorf("%w (%w)", r.why(ctx), err)
}

// head returns the end of the journal. It retries until ctx ends.
func (r *replica) head(ctx context.Context) (journal.Position, error) {
	for {
		p, err := r.journal.Head(ctx)
		if err == nil || errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrClosed) {
			return p, err
		}
		if pause(ctx) != nil {
			return p, fmt.Errorf("%w (%w)", r.why(ctx), err)
		}
	}
}

// execute implements boltFile.execute. What is decided without a command, such as a refusal,
// is decided on a state that a quorum has confirmed.
func (r *replica) execute(decide func(tx *bbolt.Tx) (command, error)) (command, error) {
	for confirmed := false; ; {
		if err := r.file.refusal(); err != nil {
			return nil, err
		}
		var form []byte
		err := r.file.view(func(tx *bbolt.Tx) error {
			c, err := decide(tx)
			if err == nil {
				form, err = r.encode(c)
			}
			return err
		})
		switch {
		case err == nil:
			if c, err := r.submit(form); err != errMoved {
				return c, err
			}
		case !confirmed && !errors.Is(err, registry.ErrTooLarge):
			if err := r.confirm(&r.barriers, barrierPause); err != nil {
				return nil, err
			}
			confirmed = true
		case err == errUnchanged:
			return nil, nil
		default:
			return nil, err
		}
	}
}

// encode returns the form of a command for which the journal has room.
func (r *replica) encode(c command) ([]byte, error) {
	form, err := encodeCommand(c)
	if largest := r.largest.Load(); err == nil && int64(len(form)) > largest {
		err = fmt.Errorf("%w: it takes %d KiB, and one command of the journal has room for %d KiB",
			registry.ErrTooLarge, len(form)>>10, largest>>10)
	}
	return form, err
}

// submit appends a command and returns it as it was applied.
func (r *replica) submit(form []byte) (command, error) {
	id, result, began := randomText(15), make(chan answer, 1), time.Now()
	r.mu.Lock()
	r.waiting[id] = result
	r.mu.Unlock()
	ctx, cancel := r.patient(len(form))
	defer cancel()
	_, err := r.journal.Append(ctx, id, form)
	if err == nil {
		select {
		case a := <-result:
			return a.command, a.err
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	delete(r.waiting, id)
	r.mu.Unlock()
	select {
	case a := <-result:
		return a.command, a.err
	default:
	}
	switch {
	case r.ctx.Err() != nil:
		return nil, r.why(r.ctx)
	case err != nil && ctx.Err() == nil:
		err = fmt.Errorf("journal: %w", err)
		if errors.Is(err, journal.ErrDamaged) {
			r.fail(err)
		}
		if errors.Is(err, journal.ErrTooLarge) { // its servers have a lower limit
			r.takeLess(form)
			err = fmt.Errorf("%w: %w", registry.ErrTooLarge, err)
		}
		return nil, err
	}
	return nil, r.suspend(id, form, time.Since(began), err)
}

// once appends a command that several nodes may append with the same id, and waits until it is
// applied.
func (r *replica) once(ctx context.Context, id string, c command) error {
	form, err := encodeCommand(c)
	if err != nil {
		return err
	}
	seq, err := r.journal.Append(ctx, id, form)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return r.wait(ctx, seq)
}

// purge asks for the next step of the purge.
func (r *replica) purge() error {
	done, err := fetch(r.file, func(tx *bbolt.Tx) (uint64, error) { return number(tx.Bucket(bMeta).Get(kPurges)), nil })
	if err != nil {
		return err
	}
	return r.once(r.ctx, fmt.Sprintf("purge-%d", done+1), &purgeStep{number: done + 1})
}

// loadApplied returns the position of the last entry that was applied.
func loadApplied(tx *bbolt.Tx) (p journal.Position, err error) {
	b := tx.Bucket(bMeta).Get(kApplied)
	if b == nil {
		return p, nil
	}
	if len(b) != 8+len(p.Hash) {
		return p, fmt.Errorf("%w: the position in the journal cannot be read", ErrDamaged)
	}
	p.Seq = number(b)
	copy(p.Hash[:], b[8:])
	return p, nil
}

// saveApplied records that the entries are applied. They must continue the last one.
func saveApplied(tx *bbolt.Tx, group []journal.Entry) error {
	at, err := loadApplied(tx)
	if err != nil {
		return err
	}
	for i := range group {
		if e := &group[i]; e.Seq != at.Seq+1 || at.Seq > 0 && e.Prev != at.Hash {
			return fmt.Errorf("%w: entry %d does not continue what was applied, which ends with %d", journal.ErrAltered, e.Seq, at.Seq)
		}
		at = group[i].Position
	}
	return tx.Bucket(bMeta).Put(kApplied, append(key8(at.Seq), at.Hash[:]...))
}
