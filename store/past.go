package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// A queryHistory is the part of a query's history that can be read.
type queryHistory struct {
	tx     *bbolt.Tx
	record record
	epoch  string
	now    []byte // the statistics
	oldest uint64 // seq of the oldest version
	logged bool   // there are changes
}

func (d *History) historyOf(tx *bbolt.Tx, query string) (queryHistory, error) {
	r, v, ok := liveRecord(tx, query)
	if !ok {
		return queryHistory{}, fmt.Errorf("query %s: %w", query, registry.ErrNotFound)
	}
	if r.seq == 0 {
		return queryHistory{}, errNoResult
	}
	h := queryHistory{tx: tx, record: r, epoch: d.epoch.of(r.serial), now: v, oldest: r.seq}
	if k, _ := tx.Bucket(bChanges).Cursor().Seek(key8(r.serial)); hasPrefix(k, key8(r.serial)) {
		h.oldest, h.logged = number(skipNumber(k)), true
	}
	return h, nil
}

func (h *queryHistory) entry(seq uint64) (logEntry, error) {
	k := key16(h.record.serial, seq)
	v := h.tx.Bucket(bChanges).Get(k)
	if v == nil {
		return logEntry{}, &registry.GapError{Reason: registry.TooOld}
	}
	return parseLogEntry(k, v)
}

// version reads when a version began. For seq 0 it returns the zero Version.
func (h *queryHistory) version(seq uint64) (registry.Version, error) {
	v := registry.Version{Position: registry.Position{Epoch: h.epoch, Seq: seq}}
	if seq == 0 {
		return registry.Version{}, nil
	}
	if !h.logged { // a new epoch has begun, and there was no change since
		r, err := parseRecord(h.now)
		v.Time, v.CheckedAt = r.stats.ChangedAt, r.stats.ChangedAt
		return v, err
	}
	l, err := h.entry(seq)
	v.Time, v.CheckedAt = l.at, l.checked
	return v, err
}

// Place finds a state. The error is a *registry.Problem or *registry.GapError if there
// is none. If the clock was set back, several changes may have the same time on both
// sides of them; Place returns the state after one of them.
func (d *History) Place(query string, m registry.Moment) (registry.Place, error) {
	p, err := d.place(query, m)
	if err == nil && d.replica != nil && !m.Time.IsZero() && p.Next.Seq == 0 { // other nodes may have a later state
		if err = d.Confirm(); err == nil {
			p, err = d.place(query, m)
		}
	}
	return p, err
}

func (d *History) place(query string, m registry.Moment) (registry.Place, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (p registry.Place, err error) {
		h, err := d.historyOf(tx, query)
		if err != nil {
			return p, err
		}
		seq, err := h.find(m, d.retention)
		if err != nil {
			return p, err
		}
		next, prev := seq+1, seq-1
		if next > h.record.seq {
			next = 0
		}
		if prev < h.oldest {
			prev = 0
		}
		for _, x := range []struct {
			to  *registry.Version
			seq uint64
		}{{&p.Version, seq}, {&p.First, h.oldest}, {&p.Prev, prev}, {&p.Next, next}, {&p.Last, h.record.seq}} {
			if *x.to, err = h.version(x.seq); err != nil {
				return p, err
			}
		}
		return p, nil
	})
}

// find returns the seq of a state that can be read.
func (h *queryHistory) find(m registry.Moment, r Retention) (uint64, error) {
	first, err := h.version(h.oldest)
	if err != nil {
		return 0, err
	}
	whole := h.logged && h.oldest == 1
	if !m.Time.IsZero() {
		seq, err := h.at(m.Time)
		switch {
		case err != nil || seq > 0:
			return seq, err
		case whole:
			return 0, noResultYet(first)
		}
		return 0, tooOld(fmt.Sprintf("the state at %s", m.Time.UTC().Format(time.RFC3339Nano)), first, r)
	}
	switch {
	case m.Epoch != "" && m.Epoch != h.epoch:
		return 0, &registry.GapError{Reason: registry.OtherEpoch}
	case m.Seq > h.record.seq:
		return 0, &registry.Problem{Kind: registry.KindNotFound,
			Detail: fmt.Sprintf("there is no change %d yet: the newest is %d", m.Seq, h.record.seq)}
	case m.Seq == 0 && whole:
		return 0, noResultYet(first)
	case m.Seq < h.oldest:
		return 0, tooOld(fmt.Sprintf("the state after change %d", m.Seq), first, r)
	}
	return m.Seq, nil
}

// at returns the seq of the state at a time by binary search, 0 if it is not kept.
func (h *queryHistory) at(t time.Time) (uint64, error) {
	low, high := h.oldest-1, h.record.seq // low is too early to judge, or at or before t
	for low < high {
		mid := low + (high-low+1)/2
		v, err := h.version(mid)
		if err != nil {
			return 0, err
		}
		if v.Time.After(t) {
			high = mid - 1
		} else {
			low = mid
		}
	}
	if low < h.oldest {
		return 0, nil
	}
	return low, nil
}

func noResultYet(first registry.Version) error {
	return &registry.Problem{Kind: registry.KindNoResult,
		Detail: "the first result is of " + first.Time.UTC().Format(time.RFC3339)}
}

func tooOld(state string, first registry.Version, r Retention) error {
	bounds := fmt.Sprintf("retention.changes is %d, retention.age %s, retention.bytes %d; 0 sets no bound", r.Changes, r.Age, r.Bytes)
	return &registry.GapError{Reason: registry.TooOld, Detail: fmt.Sprintf(
		"%s is not kept: the history of this query begins with change %d of %s. "+
			"The settings retention.changes, retention.age and retention.bytes say how much is kept (%s)",
		state, first.Seq, first.Time.UTC().Format(time.RFC3339), bounds)}
}

// Versions returns the versions of a query after a seq, oldest first, as far as they can
// be read.
func (d *History) Versions(query string, after uint64, limit int) ([]registry.Version, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (list []registry.Version, err error) {
		h, err := d.historyOf(tx, query)
		if err != nil {
			return nil, err
		}
		for seq := max(after+1, h.oldest); seq <= h.record.seq && len(list) < limit; seq++ {
			v, err := h.version(seq)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	})
}

// A route leads from a stored result through changes to a state.
type route struct {
	serial uint64
	base   []byte // packed; nil if the first change is the baseline
	next   uint64 // the first change
	left   uint64 // the number of changes
	back   bool   // they are undone, newest first
}

// route finds the cheaper route to a state.
func (h *queryHistory) route(seq uint64) (route, error) {
	r := route{serial: h.record.serial, next: seq}
	var later []byte
	if r.next, later = h.later(seq); r.next == seq {
		r.base = slices.Clone(later)
		return r, nil
	}
	l, err := h.entry(seq)
	if err != nil {
		return r, err
	}
	end, err := h.entry(r.next)
	if err != nil {
		return r, err
	}
	ahead := end.weight - min(end.weight, l.weight)
	earlier, base, found := h.earlier(seq)
	if l.baseline || found && l.weight < ahead {
		r.base, r.next, r.left = slices.Clone(base), earlier+1, seq-earlier
		return r, nil
	}
	r.base, r.back, r.left = slices.Clone(later), true, r.next-seq
	return r, nil
}

// later returns the first stored result at or after a state.
func (h *queryHistory) later(seq uint64) (at uint64, packed []byte) {
	if seq < h.record.seq {
		k, v := h.tx.Bucket(bSnapshots).Cursor().Seek(key16(h.record.serial, seq))
		if hasPrefix(k, key8(h.record.serial)) {
			return number(skipNumber(k)), v
		}
	}
	return h.record.seq, h.tx.Bucket(bResults).Get(key8(h.record.serial))
}

// earlier returns the last stored result before a state. For the baseline it is the
// empty result 0.
func (h *queryHistory) earlier(seq uint64) (at uint64, packed []byte, found bool) {
	c := h.tx.Bucket(bSnapshots).Cursor()
	step := c.Prev
	if k, _ := c.Seek(key16(h.record.serial, seq)); k == nil {
		step = c.Last
	}
	k, v := step()
	if hasPrefix(k, key8(h.record.serial)) {
		return number(skipNumber(k)), v, true
	}
	return 0, nil, h.oldest == 1
}

// read appends some changes of a route to a page, and reports whether there are more.
// It is a short transaction, because a long one keeps the file from growing.
func (r *route) read(tx *bbolt.Tx, page *changePage) (more bool, err error) {
	c := tx.Bucket(bChanges).Cursor()
	k, v := c.Seek(key16(r.serial, r.next))
	for ; r.left > 0; r.left-- {
		if !hasPrefix(k, key8(r.serial)) || number(skipNumber(k)) != r.next {
			return false, &registry.GapError{Reason: registry.TooOld, Detail: "retention dropped the state while it was being read"}
		}
		l, err := parseLogEntry(k, v)
		if err != nil {
			return false, err
		}
		size := len(page.list)
		full := !page.add(l)
		if len(page.list) == size {
			return true, nil
		}
		if r.back {
			r.next--
			k, v = c.Prev()
		} else {
			r.next++
			k, v = c.Next()
		}
		if full {
			r.left--
			return r.left > 0, nil
		}
	}
	return false, nil
}

// StateAt returns a past result. Its hash is the one that was recorded at the time. The
// errors are those of Place.
func (d *History) StateAt(ctx context.Context, query string, at registry.Position) (*diff.Result, error) {
	r, err := newest(d.boltFile, func(tx *bbolt.Tx) (route, error) {
		h, err := d.historyOf(tx, query)
		if err != nil {
			return route{}, err
		}
		seq, err := h.find(registry.Moment{Position: at}, d.retention)
		if err != nil {
			return route{}, err
		}
		return h.route(seq)
	})
	if err != nil {
		return nil, err
	}
	result, err := d.travel(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("the state of %s after change %d: %w", query, at.Seq, err)
	}
	return result, nil
}

// travel returns the state at the end of a route. Apply compares its hash with the one
// that was recorded.
func (d *History) travel(ctx context.Context, r route) (base *diff.Result, err error) {
	done, err := d.walk(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if r.base != nil {
		if base, err = d.pack.unpackResult(r.base); err != nil {
			return nil, err
		}
		base.KnownHash(resultHash(r.base))
	}
	net, err := d.net(ctx, &r)
	if err != nil {
		return nil, err
	}
	result, err := net.Apply(base)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return result, nil
}

// net returns the changes of a route as one.
func (d *History) net(ctx context.Context, r *route) (*diff.Delta, error) {
	var sum diff.Chain
	for more := r.left > 0; more; {
		page := newPage(pageEntries)
		err := d.view(func(tx *bbolt.Tx) (err error) {
			more, err = r.read(tx, &page)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := range page.list {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			c, err := page.list[i].unpack(d.pack, d.epoch)
			if err != nil {
				return nil, err
			}
			delta := c.Delta
			if r.back {
				delta = diff.Invert(delta)
			}
			if _, err := sum.Add(delta); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
			}
		}
	}
	return sum.Sum()
}

// pageEntries is the number of changes that one transaction of StateAt or Origins reads.
const pageEntries = 500

// Bounds on the changes that Origins examines.
const (
	originChanges = 2000
	originBytes   = 2 << 20
)

// Origins finds the changes that last added rows of a state. It looks back a bounded
// number of changes, and returns the oldest version that it has examined, the zero Version
// if it has examined none. The zero Version is for a row that was there before, too. A row with a blank node has no origin, since its
// label means nothing outside one result: do not ask for it.
func (d *History) Origins(ctx context.Context, query string, at registry.Position, rows diff.Rows) (origins []registry.Version,
	oldest registry.Version, err error) {
	origins = make([]registry.Version, len(rows))
	missing := map[string][]int{}
	for i, row := range rows {
		missing[string(row)] = append(missing[string(row)], i)
	}
	r, err := newest(d.boltFile, func(tx *bbolt.Tx) (route, error) {
		h, err := d.historyOf(tx, query)
		if err != nil {
			return route{}, err
		}
		seq, err := h.find(registry.Moment{Position: at}, d.retention)
		if err != nil || !h.logged {
			return route{}, err
		}
		return route{serial: h.record.serial, next: seq, left: min(originChanges, seq-h.oldest+1), back: true}, nil
	})
	if err != nil {
		return nil, oldest, err
	}
	done, err := d.walk(ctx)
	if err != nil {
		return nil, oldest, err
	}
	defer done()
	bytes := 0
	for more := r.left > 0; more && len(missing) > 0; {
		page := newPage(pageEntries)
		err := d.view(func(tx *bbolt.Tx) (err error) {
			more, err = r.read(tx, &page)
			return err
		})
		if gap := (*registry.GapError)(nil); errors.As(err, &gap) { // retention was faster
			break
		}
		if err != nil {
			return nil, oldest, err
		}
		for i := range page.list {
			if err := ctx.Err(); err != nil {
				return nil, oldest, err
			}
			if bytes += unpackedSize(page.list[i].delta); bytes > originBytes {
				return origins, oldest, nil
			}
			c, err := page.list[i].unpack(d.pack, d.epoch)
			if err != nil {
				return nil, oldest, err
			}
			oldest = registry.Version{Position: c.Position(), Time: c.Time, CheckedAt: c.CheckedAt}
			for row := range brought(c.Delta) {
				for _, i := range missing[string(row)] {
					origins[i] = oldest
				}
				delete(missing, string(row))
			}
		}
	}
	return origins, oldest, nil
}

// brought yields the rows that a change added, without those that it only moved.
func brought(d *diff.Delta) iter.Seq[[]byte] {
	gone := map[string]int{}
	if d.Ordered {
		for _, row := range d.Removed {
			gone[string(row)]++
		}
	}
	return func(yield func([]byte) bool) {
		for _, row := range d.Added {
			if gone[string(row)] > 0 {
				gone[string(row)]--
			} else if !yield(row) {
				return
			}
		}
	}
}
