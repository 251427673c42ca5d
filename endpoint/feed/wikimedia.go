package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/registry/feed"
)

// A wikimedia reads a stream of server-sent events with changes of a Wikibase.
//
// Its messages have numbers. Each connection begins with the last message that was read before: if that
// comes again, nothing is missing. A hole in the numbers is read again a few times before it becomes a gap. Some
// streams leave out a number again and again, as Kafka does after each transaction. After a few such gaps, holes
// that are as small are taken for that, as long as they go on and the process lasts.
//
// A server that ignores where a connection is to begin may leave out messages of a topic that is quiet afterwards. So
// what it sends counts as told only once it shows that it obeys: a message that was read before comes again, or each
// topic goes on where it was. A server that obeys for one topic is taken to obey for all.
type wikimedia struct {
	feed.Definition
	client client
	pause  time.Duration
	url    string
	log    *slog.Logger
	told   bool             // that it takes turns
	leaps  map[string]leaps // by topic
}

const (
	silence    = 10 * time.Minute // after which a connection counts as dead, unless the definition says otherwise
	rereadings = 6                // of a hole
	sparse     = 3                // holes in a row that no reading filled, after which others like them are expected
	smallHole  = 2                // numbers that are left out in a hole that is expected
	goesOn     = 2 * time.Hour    // between holes that are expected: a test message that is left out comes each hour
	overlap    = 1000             // milliseconds before the last position, for streams that are continued by time
	mirrored   = 24 * time.Hour   // after its publication, a message of another data centre may still come
)

// A mark is an entry of a Last-Event-ID.
type mark struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    *int64 `json:"offset,omitempty"`
	Timestamp *int64 `json:"timestamp,omitempty"` // in milliseconds
}

func (m mark) key() string { return fmt.Sprintf("%s/%d", m.Topic, m.Partition) }

// A seen is what was read of one topic.
type seen struct {
	Offset int64     `json:"offset"`
	Time   time.Time `json:"time"` // the latest
}

// A leaps says which numbers a topic leaves out.
type leaps struct {
	holes int       // in a row that no reading filled
	last  time.Time // when the message after the last hole was published
}

// usual reports whether a hole before a message is one of many.
func (l leaps) usual(at time.Time) bool { return l.holes >= sparse && at.Sub(l.last) < goesOn }

// A hole is where messages are missing: after the one with this number. It was read again a few times.
type hole struct {
	after int64
	times int
}

// A progress is the cursor.
type progress struct {
	ID    []mark          `json:"id"`
	Seen  map[string]seen `json:"seen"`
	First time.Time       `json:"first,omitzero"` // when the first message was published
}

func (p *progress) copy() progress { return progress{p.ID, maps.Clone(p.Seen), p.First} }

// lastEventID returns where a connection continues: with the last message that was read. A topic that has had none
// continues where the feed began: its first one may be mirrored late. The number -1, which it has, would leave out what
// came since. So would a time of which the server keeps nothing.
func (p *progress) lastEventID() string {
	list := make([]mark, len(p.ID))
	var last time.Time
	for _, s := range p.Seen {
		last = later(last, s.Time)
	}
	for i, m := range p.ID {
		if s := p.Seen[m.key()]; m.Offset != nil && s.Offset > 0 {
			m.Offset = &s.Offset
		} else if m.Offset != nil && *m.Offset < 0 && !last.IsZero() {
			at := later(cmp.Or(p.First, last), last.Add(-mirrored)).UnixMilli() - overlap
			m.Offset, m.Timestamp = nil, &at
		} else if m.Offset == nil && m.Timestamp != nil {
			before := *m.Timestamp - overlap
			m.Timestamp = &before
		}
		list[i] = m
	}
	b, _ := json.Marshal(list)
	return string(b)
}

// A reading is one call of Follow.
type reading struct {
	*wikimedia
	take  func(feed.Batch) error
	done  progress // what was delivered
	now   progress // what was read, with the chunks of an event that is not whole yet
	begun bool     // something was read before

	before    map[string]seen    // what was read before this connection, by topic
	obeyed    bool               // this connection begins where it was asked to
	confirmed map[string]bool    // by topic: this connection goes back to what was read before
	holes     map[string]hole    // by topic
	skipped   map[string]int64   // by topic: messages whose number is unknown
	partial   map[string]*change // by topic: the chunks of an event that is not whole yet
	second    time.Time          // that fast counts
	fast      int
	batch     feed.Batch
	triples   int
}

func (w *wikimedia) Follow(ctx context.Context, cursor string, take func(feed.Batch) error) error {
	r := &reading{wikimedia: w, take: take, begun: cursor != "", holes: map[string]hole{}, done: progress{Seen: map[string]seen{}}}
	if cursor != "" {
		if err := json.Unmarshal([]byte(cursor), &r.done); err != nil || r.done.Seen == nil {
			return fmt.Errorf("the cursor %.100q cannot be read", cursor)
		}
	}
	for {
		again, err := r.connection(ctx)
		if err != nil || !again {
			return err
		}
		if err := endpoint.Sleep(ctx, r.pauseNow()); err != nil {
			return err
		}
	}
}

// pauseNow returns how long the next reading of a hole waits: most holes are filled at once.
func (r *reading) pauseNow() time.Duration {
	times := 0
	for key, h := range r.holes {
		if h.after == r.now.Seen[key].Offset {
			times = max(times, h.times)
		}
	}
	return [...]time.Duration{0, 0, r.pause / 10, r.pause / 2, r.pause, r.pause, r.pause}[times]
}

// connection reads from one connection. again means that a part is to be read once more.
func (r *reading) connection(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leave, err := r.awaitTurn(ctx, func() { cancel(errTurn) })
	if err != nil {
		return false, err
	}
	defer leave()
	idle := cmp.Or(time.Duration(r.Silence), silence)
	watch := time.AfterFunc(idle, func() { cancel(errSilent) })
	defer watch.Stop()
	at, fields := r.url, []string{"Accept", "text/event-stream", "Accept-Encoding", "identity"}
	r.now, r.confirmed, r.partial, r.skipped = r.done.copy(), map[string]bool{}, map[string]*change{}, map[string]int64{}
	r.batch, r.triples = feed.Batch{Duplicates: r.batch.Duplicates}, 0
	r.before, r.obeyed = maps.Clone(r.done.Seen), len(r.now.ID) == 0
	if !r.obeyed {
		fields = append(fields, "Last-Event-ID", r.now.lastEventID())
	} else if !r.Since.IsZero() {
		at = withQuery(at, "since", clock(r.Since))
	}
	resp, err := r.client.get(ctx, at, fields...)
	if err != nil {
		if err = cause(ctx, err); errors.Is(err, errTurn) {
			err = nil
		}
		return false, err
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return false, fmt.Errorf("the answer is %.60q, and not text/event-stream: set url to a stream of events", kind)
	}
	in := newMessageReader(resp.Body, mostMessage)
	for {
		m, err := in.next()
		if err != nil {
			if e := r.deliver(); e != nil {
				return false, e
			}
			switch why := cause(ctx, err); {
			case errors.Is(why, errTurn):
				return false, nil
			case errors.Is(why, errSilent) && in.comments:
				return false, fmt.Errorf("no event came for %s, and only comments: the server may have lost its source", idle)
			case errors.Is(why, errSilent):
				return false, fmt.Errorf("nothing came for %s", idle)
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // servers end each connection after a while
				return false, nil
			default:
				return false, why
			}
		}
		watch.Reset(idle)
		if m.event == "error" {
			return false, fmt.Errorf("the server reports %.300q", m.data)
		}
		again := false
		alone(len(m.data), func() { again = r.add(m) })
		if again || !in.ready() || len(r.batch.Events) >= mostEvents || r.triples > mostBatch || r.batch.Gap != "" {
			if err := r.deliver(); err != nil {
				return false, err
			}
		}
		if again {
			return true, nil
		}
	}
}

var (
	errSilent = errors.New("nothing came")
	errTurn   = errors.New("its turn is over: another feed waits for a connection to the server")
)

// cause returns why a connection ended.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

func withQuery(at, name, value string) string {
	u, err := url.Parse(at)
	if err != nil {
		return at
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// deliver hands the batch over. Nothing of an event whose chunks are not all there is in it.
func (r *reading) deliver() error {
	if r.batch.Head == (feed.Place{}) { // at most duplicates
		return nil
	}
	b := r.batch
	b.More = !r.obeyed && b.Gap == "" // there may be some that the server has left out
	r.batch, r.triples = feed.Batch{}, 0
	text, err := json.Marshal(r.done)
	if err != nil {
		return err
	}
	b.Cursor = string(text)
	return r.take(b)
}

// add adds a message to the batch. again means that messages before it are to be read first.
func (r *reading) add(m message) (again bool) {
	var id []mark
	_ = json.Unmarshal([]byte(m.id), &id)
	c, err := readChange(m.data)
	if err != nil || m.cut {
		r.unknown(id)
		return false
	}
	place, key := r.place(c, id)
	if r.Topic != "" && !strings.HasPrefix(place.Topic, r.Topic) {
		return false
	}
	known, verdict := r.now.Seen[key], r.judge(key, place)
	if verdict == rereadNow {
		return true
	}
	if verdict == duplicate {
		r.batch.Duplicates++
		return false
	}
	r.leap(key, place, verdict)
	known.Offset, known.Time = place.Offset, later(known.Time, place.Time)
	r.now.Seen[key], r.confirmed[key] = known, true
	r.obeyed = r.obeyed || r.batch.Gap != "" || r.all()
	delete(r.skipped, key)
	delete(r.skipped, noTopic)
	if len(id) > 0 {
		r.now.ID = id
	}
	if c.Meta.Domain != canary && !r.whole(c, key, place) {
		return false
	}
	r.done.First = cmp.Or(r.done.First, place.Time)
	if r.done.Seen[key] = known; len(r.partial) == 0 {
		r.done.ID = r.now.ID
	}
	r.batch.Head = r.head(place)
	return false
}

// leap notes what a message says about the numbers that its topic leaves out.
func (r *reading) leap(key string, p feed.Place, v verdict) {
	l := r.leaps[key]
	switch h := r.holes[key]; {
	case v == filled && h.times > 0 && h.after == r.now.Seen[key].Offset:
		delete(r.leaps, key)
		return
	case v == missing && r.confirmed[key] && p.Time.Sub(l.last) >= goesOn:
		l.holes = 1
	case v == missing && r.confirmed[key]:
		l.holes++
	case v != expected:
		return
	}
	l.last = p.Time
	r.leaps[key] = l
}

// all reports whether each topic that was read before has gone on.
func (r *reading) all() bool {
	for key := range r.done.Seen {
		if !r.confirmed[key] {
			return false
		}
	}
	return true
}

// whole adds the event of a message, unless chunks of it are still to come.
func (r *reading) whole(c *change, key string, place feed.Place) bool {
	c.unread = r.tooFast()
	before := r.partial[key]
	delete(r.partial, key)
	switch {
	case before != nil && before.join(c):
		c = before
	case before != nil: // the rest of it is missing
		r.event(before, place)
		fallthrough
	default:
		c.unread = c.unread || c.Sequence > 0
	}
	if c.Sequence+1 < c.Length {
		r.partial[key] = c
		return false
	}
	r.event(c, place)
	return true
}

func (r *reading) event(c *change, place feed.Place) {
	e := c.event()
	e.Place = place
	r.triples += len(e.Added) + len(e.Removed)
	r.batch.Events = append(r.batch.Events, e)
}

// head is the place of the last event with the latest time that was seen.
func (r *reading) head(p feed.Place) feed.Place {
	for _, s := range r.now.Seen {
		p.Time = later(p.Time, s.Time)
	}
	return p
}

// unknown adds an event for a message that cannot be read: it may have changed anything.
func (r *reading) unknown(id []mark) {
	place, key := r.place(&change{}, id)
	known := r.now.Seen[key]
	if r.Topic != "" && place.Topic != "" && !strings.HasPrefix(place.Topic, r.Topic) {
		return
	}
	if key == noTopic { // it is of any of those that were seen
		if len(r.now.Seen) == 0 { // nothing is known of what came before the first message that can be read
			return
		}
		for _, s := range r.now.Seen {
			known.Offset = max(known.Offset, s.Offset)
		}
	}
	r.skipped[key]++
	place.Offset = max(place.Offset, known.Offset+r.skipped[key])
	r.batch.Events = append(r.batch.Events, feed.Event{Place: place, All: true})
	r.batch.Head = r.head(place)
}

// noTopic is the key of messages whose topic is unknown.
var noTopic = mark{}.key()

// unread returns how many messages of a topic came since the last one whose number is known. One of an unknown topic
// is of the only one there is.
func (r *reading) unread(key string) int64 {
	n := r.skipped[key]
	if len(r.now.Seen) == 1 && key != noTopic {
		n += r.skipped[noTopic]
	}
	return n
}

// tooFast reports whether so many messages came in this second that their triples are not read.
func (r *reading) tooFast() bool {
	if now := time.Now().Truncate(time.Second); now != r.second {
		r.second, r.fast = now, 0
	}
	r.fast++
	return r.fast > mostFast
}

// place returns where a message is, and the key of its topic. The position in the id is that of the next
// message where the message does not tell its own. So the event counts as a little later than it is.
func (r *reading) place(c *change, id []mark) (feed.Place, string) {
	p := mark{Topic: c.Meta.Topic, Partition: c.Meta.Partition, Offset: c.Meta.Offset}
	before := map[string]mark{}
	for _, m := range r.now.ID {
		before[m.key()] = m
	}
	for _, m := range id {
		old, there := before[m.key()]
		moved := !there || !same(old.Offset, m.Offset) || !same(old.Timestamp, m.Timestamp)
		if p.Topic == "" && moved && (m.Offset == nil || *m.Offset >= 0) {
			p.Topic, p.Partition = m.Topic, m.Partition
		}
		if p.Offset == nil && m.Topic == p.Topic && m.Partition == p.Partition {
			p.Offset = m.Offset
		}
	}
	place := feed.Place{Topic: p.Topic, Time: later(c.Meta.Time, c.Time).UTC()}
	if p.Partition > 0 { // it has numbers of its own
		place.Topic = p.key()
	}
	if p.Offset != nil {
		place.Offset = *p.Offset
	}
	return place, p.key()
}

func same(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// A verdict says what the number of a message means.
type verdict int

const (
	filled    verdict = iota // nothing is missing before it
	expected                 // numbers are left out before it, as often
	duplicate                // it was read before
	rereadNow                // something is missing before it, and is read again
	missing                  // something is missing before it for good
)

// judge returns what the place of a message says about those before it. It notes a gap.
func (r *reading) judge(key string, p feed.Place) verdict {
	s, known := r.now.Seen[key]
	gap := func(format string, args ...any) verdict {
		if r.batch.Gap == "" {
			r.batch.Gap = fmt.Sprintf(format, args...)
		}
		return missing
	}
	switch {
	case !known && r.begun, !known && r.Since.IsZero():
		return filled
	case !known: // of a feed that is read for the first time
		r.begun = true
		if p.Time.Sub(r.Since) > time.Minute && p.Offset > 1 {
			return gap("since: the server begins at %s and not at %s, because it keeps nothing older: set since to a later time, or leave it out",
				clock(p.Time), clock(r.Since))
		}
		return filled
	case p.Offset <= s.Offset && !p.Time.After(s.Time):
		r.confirmed[key] = true
		if b := r.before[key]; p.Offset <= b.Offset && !p.Time.After(b.Time) { // and this connection did not just bring it twice
			r.obeyed = true
		}
		if p.Offset == 0 { // another event of the same time cannot be told apart
			return filled
		}
		return duplicate
	case p.Offset > s.Offset && p.Offset <= s.Offset+1+r.unread(key):
		return filled
	case p.Offset != 0 && p.Offset <= s.Offset:
		return gap("the numbers of %s begin again at %d", p.Topic, p.Offset)
	case r.confirmed[key] && p.Offset == 0:
		return filled
	case r.confirmed[key] && p.Offset-s.Offset-1-r.unread(key) <= smallHole && r.leaps[key].usual(p.Time):
		return expected
	}
	if h := r.holes[key]; h.after != s.Offset || h.times < rereadings {
		if h.after != s.Offset {
			h = hole{after: s.Offset}
		}
		h.times++
		r.holes[key] = h
		return rereadNow
	}
	delete(r.holes, key)
	return gap("what %s published between %s and %s is missing", cmp.Or(p.Topic, "the server"), clock(s.Time), clock(p.Time))
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
