// Package replica applies the commands of a journal to the file of a store, in their order, on every node of a
// cluster. It knows the file only by the transactions that it may run there, and a command only by its two methods.
//
//   - A command is decided on in a read transaction, encoded and appended (Execute). Every node decodes it and applies
//     it in the order of the journal. The node that appended it gives the answer to its caller.
//   - While the journal does not answer, nothing is written: outage.go.
//   - Nodes compare a hash of what they have made of the commands: statehash.go.
package replica

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
	"go.etcd.io/bbolt"
)

// A Command is one write to the store as it comes from the journal.
type Command interface {
	// Resume reads what the command was decided on, and writes nothing. It returns ErrMoved if that has changed
	// since: the node that appended the command decides again. With any other error the command has no effect
	// either, and the caller gets the error.
	Resume(tx *bbolt.Tx) error
	// Apply performs the command. It uses only the command and the file, and neither a clock nor randomness nor
	// settings. It returns ErrUnchanged if it has written nothing. Any other error undoes the transaction, and is
	// the same on all nodes unless Options.Ends says otherwise.
	Apply(tx *bbolt.Tx) error
}

// Errors of commands.
var (
	ErrMoved     = errors.New("the entry has changed since")
	ErrUnchanged = errors.New("nothing has changed")
)

// An Answer is what became of a command. Its command is nil if it could not be applied.
type Answer struct {
	Command Command
	Err     error
}

// Options are what a replica needs of its store.
type Options struct {
	Journal journal.Journal
	Log     *slog.Logger
	// Patience is how long a write, or a read of the newest state, waits for the journal; 0: 10 s.
	Patience time.Duration
	// CompareEvery is the number of entries between two comparisons of nodes; 0: 1000.
	CompareEvery uint64
	// Bucket has the entries of the replica itself: Applied, State and Diverged.
	Bucket []byte

	View func(f func(tx *bbolt.Tx) error) error // runs a read transaction
	Edit func(f func(tx *bbolt.Tx) error) error // runs a write transaction
	// Refusal returns why nothing can be written now: registry.ErrReadOnly while the disk is full, and any other
	// error for good.
	Refusal func() error
	Encode  func(c Command) ([]byte, error) // called in the transaction in which the command was decided on
	Decode  func(form []byte) (Command, error)
	// First returns the first command of a journal. The store is not a copy, or Copied says why it waits for the
	// one that it was copied from.
	First  func() (Command, error)
	Copied error
	// Digest appends to b what a command has done to the file. Nodes compare it.
	Digest func(b []byte, tx *bbolt.Tx, a Answer) []byte
	// Ends reports whether an error of a command means that this node cannot follow the journal.
	Ends func(err error) bool
	// Applied is called after a commit and before callers get their answers.
	Applied func(list []Answer)
	// Foreign is called then with the effective commands for which no caller on this node waits. It does not call the
	// replica.
	Foreign func(list []Answer)
	// Failed is called when the replica has ended with an error, other than by Close.
	Failed func(err error)
}

// The entries of Options.Bucket. A file with Applied follows a journal.
var (
	Applied  = []byte("applied")  // the number and the hash of the entry that was applied last
	State    = []byte("state")    // see stateHash
	Diverged = []byte("diverged") // forbids to open the file as that of a member again
)

// Bounds on the entries that share a transaction.
const (
	groupEntries = 256
	groupBytes   = 8 << 20
)

// headPause is the pause between two questions to a journal that does not answer.
const headPause = 100 * time.Millisecond

// A Replica applies the commands of a journal to the file, in their order. Two goroutines
// work for it: one reads entries, the other applies them, as many in a transaction as are
// there. The position of the last one is written in the same transaction.
type Replica struct {
	o       Options
	journal journal.Journal
	ctx     context.Context // ends with the first failure, which is its cause
	stop    context.CancelCauseFunc
	waits   context.Context // of writes, and of reads of the newest state; ends early by Hurry
	hurry   context.CancelCauseFunc
	done    sync.WaitGroup

	patience atomic.Int64 // as Options.Patience
	largest  atomic.Int64 // size of a command

	retention journal.Retention

	mu        sync.Mutex
	applied   uint64
	moved     chan struct{} // closed and replaced when applied increases
	waiting   map[string]chan Answer
	outage    *outage  // nil while the journal answers
	barriers  barriers // of callers who may read
	strangers barriers // of those who may not, or who must show it first

	name     string // of this process, in reports
	reports  atomic.Bool
	state    stateHash // used by the applier alone, as is what follows
	compared comparison
	reported uint64 // the last entry at which nodes compare
}

// Start brings the file to the end of the journal and keeps following it. A file that
// has not followed a journal yet begins one, or joins it if the file is new.
func Start(o Options) (*Replica, error) {
	o.CompareEvery = cmp.Or(o.CompareEvery, usualCompare)
	r := &Replica{o: o, journal: o.Journal, name: rand.Text(), moved: make(chan struct{}), waiting: map[string]chan Answer{}}
	r.barriers.pause, r.strangers.pause = barrierPause, strangerPause
	r.SetPatience(cmp.Or(o.Patience, journalWait))
	r.SetLargest(journal.MaxCommand)
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	r.waits, r.hurry = context.WithCancelCause(r.ctx)
	var at journal.Position
	err := o.View(func(tx *bbolt.Tx) (err error) {
		b := tx.Bucket(o.Bucket)
		if b.Get(Diverged) != nil {
			return ErrDiverged
		}
		r.state.load(b)
		at, err = loadApplied(b)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.applied, r.reported = at.Seq, r.state.seq
	ctx, cancel := r.opening()
	defer cancel()
	if at == (journal.Position{}) {
		if err := r.begin(ctx); err != nil {
			return nil, r.blame(ctx, err)
		}
	}
	r.follow(at)
	if err := r.reach(ctx, at); err != nil {
		r.Close()
		return nil, err
	}
	r.reports.Store(true) // those about earlier entries come too late
	return r, nil
}

// SetPatience replaces Options.Patience.
func (r *Replica) SetPatience(d time.Duration) { r.patience.Store(int64(d)) }

// SetLargest bounds the size of a command, and Largest returns the bound. A journal that refuses a command as too
// large lowers it.
func (r *Replica) SetLargest(bytes int64) { r.largest.Store(bytes) }

// Largest returns the number of bytes that a command may have.
func (r *Replica) Largest() int64 { return r.largest.Load() }

// begin appends the first command if the journal is empty. The file has not applied any. A copy
// waits for the store that it was copied from.
func (r *Replica) begin(ctx context.Context) error {
	for empty := false; ; empty = true {
		head, err := r.head(ctx)
		switch {
		case err == nil && head.Seq > 0:
			return nil
		case empty && ctx.Err() != nil:
			return r.o.Copied
		case err != nil:
			return err
		}
		if r.o.Copied == nil {
			break
		}
		_ = pause(ctx) // the journal may have been begun when ctx ends
	}
	c, err := r.o.First()
	if err == nil {
		_, err = r.append(ctx, beginID, c)
	}
	return err
}

// beginID is the id of the first command of every journal.
const beginID = "begin"

// CatchUp waits until everything that the journal contains is applied.
func (r *Replica) CatchUp(ctx context.Context) error {
	head, err := r.head(ctx)
	if err == nil {
		err = r.Wait(ctx, head.Seq)
	}
	return err
}

// reach waits until the journal is known to continue a position and all of it is applied. An
// end before the position may be out of date; the reader finds out.
func (r *Replica) reach(ctx context.Context, at journal.Position) error {
	for {
		head, err := r.head(ctx)
		switch {
		case err != nil:
			return err
		case head.Seq == at.Seq && head.Hash != at.Hash:
			return journal.Foreign(at.Seq)
		case head.Seq >= at.Seq:
			return r.Wait(ctx, head.Seq)
		}
		if pause(ctx) != nil {
			return r.why(ctx)
		}
	}
}

func (r *Replica) follow(at journal.Position) {
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
func (r *Replica) fail(err error) {
	if r.stop(err); !errors.Is(context.Cause(r.ctx), journal.ErrClosed) {
		r.o.Failed(fmt.Errorf("journal: %w", err))
	}
}

// Close stops following the journal. Commands that are not applied yet have an unknown outcome.
func (r *Replica) Close() {
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
func (r *Replica) apply(group []journal.Entry) error {
	answers := make([]Answer, len(group))
	for {
		failed, err := r.attempt(group, answers)
		switch {
		case err == nil:
			r.publish(group, answers)
			return r.exchangeReports(answers)
		case failed && len(group) > 1:
			for i := range group {
				if err := r.apply(group[i : i+1]); err != nil {
					return err
				}
			}
			return nil
		case failed && !r.o.ends(err): // on every node
			answers[0] = Answer{Err: err}
			if err = r.skip(group); err == nil {
				r.publish(group, answers)
				return r.exchangeReports(nil)
			}
		}
		if !errors.Is(err, registry.ErrReadOnly) {
			return fmt.Errorf("apply entry %d: %w", group[0].Seq, err)
		}
		for r.o.full() {
			if err := pause(r.ctx); err != nil {
				return err
			}
		}
	}
}

// ends reports whether an error of a command means that this node cannot follow the journal.
func (o *Options) ends(err error) bool { return errors.Is(err, ErrForm) || o.Ends(err) }

// full reports whether nothing can be applied because the disk is full.
func (o *Options) full() bool { return errors.Is(o.Refusal(), registry.ErrReadOnly) }

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
func (r *Replica) attempt(group []journal.Entry, answers []Answer) (failed bool, err error) {
	err = r.edit(group, func(tx *bbolt.Tx, state *stateHash) error {
		for i := range group {
			if err := r.o.one(tx, &group[i], &answers[i]); err != nil {
				failed = true
				return err
			}
			state.add(&r.o, tx, group[i].Seq, answers[i])
		}
		return nil
	})
	if err == nil {
		r.o.Applied(answers)
	}
	return failed && err != nil, err
}

// skip records that an entry without effect is applied.
func (r *Replica) skip(group []journal.Entry) error {
	return r.edit(group, func(tx *bbolt.Tx, state *stateHash) error {
		state.add(&r.o, tx, group[0].Seq, Answer{Err: ErrUnchanged})
		return nil
	})
}

// edit runs a transaction that records that entries are applied.
func (r *Replica) edit(group []journal.Entry, f func(tx *bbolt.Tx, state *stateHash) error) error {
	state := r.state
	err := r.o.Edit(func(tx *bbolt.Tx) error {
		if err := f(tx, &state); err != nil {
			return err
		}
		b := tx.Bucket(r.o.Bucket)
		return errors.Join(saveApplied(b, group), state.save(b))
	})
	if err == nil {
		r.state = state
	}
	return err
}

// one applies an entry. An error undoes the transaction.
func (o *Options) one(tx *bbolt.Tx, e *journal.Entry, a *Answer) error {
	c, err := o.decode(e.Command)
	if err != nil {
		return err
	}
	*a = Answer{Command: c}
	if err := c.Resume(tx); err != nil {
		if a.Err = err; o.ends(err) {
			return err
		}
		return nil
	}
	if err := c.Apply(tx); err != ErrUnchanged {
		return err
	}
	return nil
}

// publish reports what no caller on this node waits for, and then gives answers to those who wait: what they do next
// follows from all of it.
func (r *Replica) publish(group []journal.Entry, answers []Answer) {
	var foreign []Answer
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range group {
		if r.waiting[e.ID] == nil && answers[i].Err == nil {
			foreign = append(foreign, answers[i])
		}
	}
	r.o.Foreign(foreign)
	for i, e := range group {
		r.outage.forgetCommand(e.ID)
		if to := r.waiting[e.ID]; to != nil {
			delete(r.waiting, e.ID)
			to <- answers[i]
		}
	}
	r.applied = group[len(group)-1].Seq
	close(r.moved)
	r.moved = make(chan struct{})
}

// Wait waits until an entry is applied.
func (r *Replica) Wait(ctx context.Context, seq uint64) error {
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

// why returns the reason for the end of ctx. Once this node has ended, another one may answer.
func (r *Replica) why(ctx context.Context) error {
	if err := context.Cause(r.ctx); err != nil {
		return fmt.Errorf("%w: %w", err, &registry.Problem{Kind: registry.KindUnavailable, RetryAfter: 5 * time.Second,
			Detail: "this node follows the journal of its cluster no more, and ends: ask another node"})
	}
	return fmt.Errorf("%w: %w", ErrNoJournal, context.Cause(ctx))
}

// blame returns err with the reason for the end of ctx, if it has ended.
func (r *Replica) blame(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ErrNoJournal) {
		return err
	}
	return fmt.Errorf("%w (%w)", r.why(ctx), err)
}

// head returns the end of the journal. It retries until ctx ends.
func (r *Replica) head(ctx context.Context) (journal.Position, error) {
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

// Execute decides on a command, appends it, and returns it as it was applied. decide is called again if what it has
// read changes before the command is applied, so it must have no other effect than on what it decides. What is decided
// without a command, such as a refusal, is decided on a state that a quorum has confirmed. After ErrUnchanged there is
// no command.
func (r *Replica) Execute(decide func(tx *bbolt.Tx) (Command, error)) (Command, error) {
	for confirmed := false; ; {
		if err := cmp.Or(r.o.Refusal(), r.Refusal()); err != nil {
			return nil, err
		}
		var form []byte
		err := r.o.View(func(tx *bbolt.Tx) error {
			c, err := decide(tx)
			if err == nil {
				form, err = r.fitting(c)
			}
			return err
		})
		switch {
		case err == nil:
			if c, err := r.Submit(form); err != ErrMoved {
				return c, err
			}
		case !confirmed && !errors.Is(err, registry.ErrTooLarge):
			if err := r.Confirm(); err != nil {
				return nil, err
			}
			confirmed = true
		case err == ErrUnchanged:
			return nil, nil
		default:
			return nil, err
		}
	}
}

// fitting returns the form of a command for which the journal has room.
func (r *Replica) fitting(c Command) ([]byte, error) {
	form, err := r.o.encode(c)
	if largest := r.Largest(); err == nil && int64(len(form)) > largest {
		err = fmt.Errorf("%w: it takes %d KiB, and one command of the journal has room for %d KiB",
			registry.ErrTooLarge, len(form)>>10, largest>>10)
	}
	return form, err
}

// Submit appends the form of a command, and returns the command as it was applied.
func (r *Replica) Submit(form []byte) (Command, error) {
	id, result, began := rand.Text(), make(chan Answer, 1), time.Now()
	r.mu.Lock()
	r.waiting[id] = result
	r.mu.Unlock()
	ctx, cancel := r.patient(len(form))
	defer cancel()
	_, err := r.journal.Append(ctx, id, form)
	if err == nil {
		select {
		case a := <-result:
			return a.Command, a.Err
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	delete(r.waiting, id)
	r.mu.Unlock()
	select {
	case a := <-result:
		return a.Command, a.Err
	default:
	}
	switch {
	case r.ctx.Err() != nil:
		return nil, r.why(r.ctx)
	case err != nil && ctx.Err() == nil:
		err = fmt.Errorf("journal: %w", err)
		if errors.Is(err, journal.ErrDamaged) {
			r.fail(err)
			return nil, r.why(r.ctx)
		}
		if errors.Is(err, journal.ErrTooLarge) { // its servers have a lower limit
			r.lowerLargest(form)
			err = fmt.Errorf("%w: %w", registry.ErrTooLarge, err)
		}
		return nil, err
	}
	return nil, r.suspend(id, form, time.Since(began), err)
}

// Once appends a command that several nodes may append with the same id, and waits until it is applied.
func (r *Replica) Once(id string, c Command) error {
	seq, err := r.append(r.ctx, id, c)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return r.Wait(r.ctx, seq)
}

func (r *Replica) append(ctx context.Context, id string, c Command) (seq uint64, err error) {
	form, err := r.o.encode(c)
	if err == nil {
		seq, err = r.journal.Append(ctx, id, form)
	}
	return seq, err
}

// Drop removes the entries from the journal that no member needs, see journal.Retention.
func (r *Replica) Drop(applied ...uint64) error {
	upTo, err := r.retention.Droppable(r.ctx, r.journal, applied...)
	if err != nil || upTo == 0 {
		return err
	}
	return r.journal.Drop(r.ctx, upTo)
}

// loadApplied returns the position of the last entry that was applied.
func loadApplied(meta *bbolt.Bucket) (p journal.Position, err error) {
	b := meta.Get(Applied)
	if b == nil {
		return p, nil
	}
	if len(b) != 8+len(p.Hash) {
		return p, fmt.Errorf("%w: the position in the journal cannot be read", journal.ErrAltered)
	}
	p.Seq = binary.BigEndian.Uint64(b)
	copy(p.Hash[:], b[8:])
	return p, nil
}

// saveApplied records that the entries are applied. They must continue the last one.
func saveApplied(meta *bbolt.Bucket, group []journal.Entry) error {
	at, err := loadApplied(meta)
	if err != nil {
		return err
	}
	for i := range group {
		if e := &group[i]; e.Seq != at.Seq+1 || at.Seq > 0 && e.Prev != at.Hash {
			return fmt.Errorf("%w: entry %d does not continue what was applied, which ends with %d", journal.ErrAltered, e.Seq, at.Seq)
		}
		at = group[i].Position
	}
	return meta.Put(Applied, append(binary.BigEndian.AppendUint64(nil, at.Seq), at.Hash[:]...))
}
