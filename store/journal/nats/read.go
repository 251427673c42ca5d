package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/nats-io/nats.go"
)

// Limits of reading.
const (
	pageBytes    = 8 << 20 // of a page, and of a request for several messages
	pageMessages = 256     // of a request
	liveMessages = 4096    // that wait to be read
	liveBytes    = 64 << 20
	lookAgain    = time.Second // without a message
)

// A source reads the journal for one call of Read. New messages come from the subject where
// JetStream publishes them again, which is fast; messages that are missing there are fetched from
// the stream, by their numbers.
type source struct {
	*Journal
	live *nats.Subscription
	next uint64   // number of the next message; 0 if unknown
	held *message // from live, not yet used
	told bool     // live has all messages after the last one it had, as far as is known
	page []*message
	part []byte // chunks of the next entry
	n    int    // number of chunks in part
}

func (s *source) close() {
	if s.live != nil {
		_ = s.live.Unsubscribe() // fails only if the connection is closed
	}
}

// Span implements engine.Source.
func (s *source) Span(ctx context.Context, atLeast uint64) (uint64, journal.Position, error) {
	end, err := s.endAtLeast(ctx, atLeast)
	if err != nil || end.Seq == 0 {
		return 1, end.position(), err
	}
	state, err := s.state(ctx)
	if err != nil {
		return 0, journal.Position{}, err
	}
	m, err := s.get(ctx, getRequest{Seq: state.FirstSeq})
	if err != nil {
		return 0, journal.Position{}, err
	}
	p, err := m.part()
	return p.Seq, end.Position, err
}

func (t *tip) position() journal.Position {
	if t == nil {
		return journal.Position{}
	}
	return t.Position
}

// Page implements engine.Source.
func (s *source) Page(ctx context.Context, after uint64) (list []journal.Entry, err error) {
	if err := s.begin(ctx, after); err != nil {
		return nil, err
	}
	for size := 0; size < pageBytes; {
		m, err := s.message(ctx, len(list) > 0)
		if err != nil || m == nil {
			if len(list) > 0 { // an error comes back with the next page
				err = nil
			}
			return list, err
		}
		e, err := s.add(m)
		if err != nil {
			return list, err
		}
		if e != nil {
			size += len(e.Command) + 1
			list = append(list, *e)
		}
	}
	return list, nil
}

// begin subscribes and finds the first message after a number, once.
func (s *source) begin(ctx context.Context, after uint64) error {
	if err := s.damage(); err != nil {
		return err
	}
	if s.live == nil {
		live, err := s.nc.SubscribeSync(s.liveSubject() + ".>")
		if err != nil {
			return err
		}
		s.live = live
		if err := live.SetPendingLimits(liveMessages, liveBytes); err != nil {
			return err
		}
	}
	if s.next > 0 {
		return nil
	}
	end, err := s.endAtLeast(ctx, after)
	if err != nil {
		return err
	}
	s.next, err = s.firstAfter(ctx, after, end.message)
	return err
}

// add takes the next message. It returns the entry that the message ends, if any.
func (s *source) add(m *message) (*journal.Entry, error) {
	s.next = m.seq + 1
	s.read.Store(m.seq)
	if !m.isEnd() {
		if _, err := m.part(); err != nil {
			return nil, err
		}
		s.part, s.n = append(s.part, m.data...), s.n+1
		return nil, nil
	}
	p, err := m.entry()
	if err != nil {
		return nil, err
	}
	if p.chunks != s.n {
		return nil, journal.Altered("entry %d has %d chunks of %d", p.Seq, s.n, p.chunks)
	}
	e := p.Entry
	e.Command = m.data
	if s.n > 0 {
		e.Command = s.part
	}
	s.part, s.n = nil, 0
	return &e, nil
}

// message returns the next message, or nil if there is none at the moment. It asks the servers only
// if live may lack it, and not if idle is set: asking takes three requests, in whose time the next
// message waits.
func (s *source) message(ctx context.Context, idle bool) (*message, error) {
	for {
		if len(s.page) > 0 {
			m := s.page[0]
			s.page = s.page[1:]
			return m, nil
		}
		if s.held == nil {
			if err := s.receive(0); err != nil {
				return nil, err
			}
		}
		switch {
		case s.held != nil && s.held.seq < s.next:
			s.held = nil
			continue
		case s.held != nil && s.held.seq == s.next:
			m := s.held
			s.held = nil
			return m, nil
		case s.held == nil && (idle || s.told):
			return nil, nil
		}
		if err := s.fetch(ctx); err != nil {
			return nil, err
		}
		if len(s.page) == 0 {
			s.told = true
			return nil, nil
		}
	}
}

// receive waits for a message on the live subject and holds it.
func (s *source) receive(wait time.Duration) error {
	for {
		m, err := s.live.NextMsg(wait)
		switch {
		case errors.Is(err, nats.ErrTimeout):
			return nil
		case errors.Is(err, nats.ErrSlowConsumer): // messages were lost; they will be fetched
			s.told = false
			continue
		case err != nil:
			return err
		}
		if s.held, err = received(m); err == nil {
			s.told = true
			return nil
		}
		s.held = nil // not a message of the stream
	}
}

// received returns a message that has its number and subject in headers, as JetStream sends it.
func received(m *nats.Msg) (*message, error) {
	seq, err := strconv.ParseUint(m.Header.Get(nats.JSSequence), 10, 64)
	if err != nil {
		return nil, err
	}
	return &message{seq: seq, subject: m.Header.Get(nats.JSSubject), header: m.Header, data: m.Data}, nil
}

// fetch reads messages from s.next on into s.page: none if there are none.
func (s *source) fetch(ctx context.Context) error {
	page, err := s.fetchDirect(ctx)
	if err != nil {
		return err
	}
	if len(page) == 0 {
		// The server that answered may lag behind the leader.
		m, err := s.get(ctx, getRequest{Seq: s.next})
		if errors.Is(err, errNoMessage) {
			return s.absent(ctx)
		}
		if err != nil {
			return err
		}
		page = append(page, m)
	}
	for i, m := range page {
		if m.seq != s.next+uint64(i) {
			if i == 0 {
				return s.absent(ctx)
			}
			page = page[:i]
			break
		}
	}
	s.page = page
	s.found(s.next)
	return nil
}

// absent returns an error if the next message should be there. It forgets the place after a drop,
// so that the next page begins with the first entry that is there.
func (s *source) absent(ctx context.Context) error {
	state, err := s.state(ctx)
	switch {
	case err != nil:
		return err
	case s.next < state.FirstSeq && state.Msgs > 0:
		s.next, s.part, s.n, s.held = state.FirstSeq, nil, 0, nil
	case s.next <= state.LastSeq:
		if m, err := s.get(ctx, getRequest{Seq: s.next}); errors.Is(err, errNoMessage) {
			return s.lacks(s.next)
		} else if err == nil {
			s.page = []*message{m}
		}
	}
	return nil
}

// fetchDirect asks any server of the stream for messages from s.next on. It may return fewer than
// there are.
func (s *source) fetchDirect(ctx context.Context) (page []*message, err error) {
	first, done := s.calls.begin(ctx, 0)
	defer func() { done(err) }()
	ctx, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	body, err := json.Marshal(map[string]uint64{"seq": s.next, "batch": pageMessages, "max_bytes": pageBytes})
	if err != nil {
		return nil, err
	}
	inbox := s.nc.NewRespInbox()
	answers, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }() // fails only if the connection is closed
	if err := s.nc.PublishRequest("$JS.API.DIRECT.GET."+s.stream, inbox, body); err != nil {
		return nil, err
	}
	for wait := first; ; wait = ctx {
		m, err := answers.NextMsgWithContext(wait)
		if err != nil {
			if len(page) > 0 && ctx.Err() != nil {
				return page, nil // the server is gone
			}
			return nil, err
		}
		switch status := m.Header.Get("Status"); {
		case status == "204" || status == "404": // the end; none
			return page, nil
		case status != "":
			return nil, fmt.Errorf("NATS: %s %s", status, m.Header.Get("Description"))
		}
		r, err := received(m)
		if err != nil {
			return nil, fmt.Errorf("NATS: a message without a number: %w", err)
		}
		page = append(page, r)
	}
}

// Wait implements engine.Source.
func (s *source) Wait(ctx context.Context, after uint64) (journal.Position, error) {
	if s.held != nil {
		return journal.Position{}, nil
	}
	brief, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	m, err := s.live.NextMsgWithContext(brief)
	if err == nil {
		if r, err := received(m); err == nil && strings.HasPrefix(r.subject, s.stream) {
			s.held, s.told = r, true
		}
		return journal.Position{}, nil
	}
	s.told = false
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		return journal.Position{}, nil
	case errors.Is(err, context.DeadlineExceeded):
		end, err := s.endAtLeast(ctx, after)
		return end.position(), err
	}
	return journal.Position{}, err
}
