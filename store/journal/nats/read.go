package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/internal/engine"
	"github.com/nats-io/nats.go"
)

// Limits of a request for several messages.
const (
	pageBytes    = 8 << 20
	pageMessages = 256
)

// A place is where an entry ends in the stream.
type place struct{ entry, message uint64 }

func (j *Journal) span(ctx context.Context, atLeast uint64) (uint64, journal.Position, error) {
	end, err := j.endAtLeast(ctx, atLeast)
	if err != nil {
		return 0, journal.Position{}, err
	}
	if end.Seq == 0 {
		return 1, end.Position, nil
	}
	state, err := j.state(ctx)
	if err != nil {
		return 0, journal.Position{}, err
	}
	m, err := j.get(ctx, state.FirstSeq)
	if err != nil {
		return 0, journal.Position{}, err
	}
	p, err := m.part()
	return p.Seq, end.Position, err
}

func (j *Journal) page(ctx context.Context, after uint64, insist bool) (list []journal.Entry, err error) {
	if err := j.damage(); err != nil {
		return nil, err
	}
	next, err := j.messageAfter(ctx, after)
	if err != nil {
		return nil, err
	}
	var chunks []*message // of the next entry
	for len(list) == 0 {
		messages, err := j.fetch(ctx, next, insist)
		if err != nil || len(messages) == 0 {
			return nil, err
		}
		for _, m := range messages {
			if next = m.Sequence + 1; !m.isEnd() {
				chunks = append(chunks, m)
				continue
			}
			e, err := m.entry(chunks)
			if err != nil && len(list) > 0 {
				return list, nil // the error comes back with the next page
			} else if err != nil {
				return nil, err
			}
			list, chunks = append(list, e), nil
			j.setRead(place{e.Seq, m.Sequence})
		}
	}
	return list, nil
}

// setRead notes where the last entry ends that was read.
func (j *Journal) setRead(p place) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.read = p
}

// messageAfter returns the first message after an entry.
func (j *Journal) messageAfter(ctx context.Context, entry uint64) (uint64, error) {
	j.mu.Lock()
	read := j.read
	j.mu.Unlock()
	switch entry {
	case 0:
		return 1, nil
	case read.entry:
		return read.message + 1, nil
	}
	end, err := j.endAtLeast(ctx, entry)
	if err != nil {
		return 0, err
	}
	next, err := j.firstAfter(ctx, entry, end.message)
	if err == nil {
		j.setRead(place{entry, next - 1})
	}
	return next, err
}

// fetch returns messages from one on, none if there are none at the moment. If insist is set, it asks the
// leader of the stream if another server lacks it.
func (j *Journal) fetch(ctx context.Context, from uint64, insist bool) ([]*message, error) {
	list, err := j.fetchAny(ctx, from)
	switch {
	case err != nil, len(list) == 0 && !insist:
		return nil, err
	case len(list) == 0 || list[0].Sequence != from:
		state, err := j.state(ctx)
		switch {
		case err != nil, from < state.FirstSeq: // dropped
			return list, err
		case from > state.LastSeq: // not there yet, as far as this leader knows
			return nil, nil
		}
		m, err := j.get(ctx, from)
		if errors.Is(err, nats.ErrMsgNotFound) {
			err = j.lacks(from)
		}
		if err != nil {
			return nil, err
		}
		return []*message{m}, nil
	}
	j.found(messageText(from))
	for i, m := range list {
		if m.Sequence != from+uint64(i) {
			return list[:i], nil
		}
	}
	return list, nil
}

// fetchAny asks any server of the stream for messages from one on. It may return fewer than there are.
func (j *Journal) fetchAny(ctx context.Context, from uint64) (list []*message, err error) {
	j.fetching.Lock()
	defer j.fetching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	body, err := json.Marshal(map[string]uint64{"seq": from, "batch": pageMessages, "max_bytes": pageBytes})
	if err != nil {
		return nil, err
	}
	j.fetches++
	inbox := fmt.Sprint(j.inbox, ".", j.fetches)
	if err := j.nc.PublishRequest("$JS.API.DIRECT.GET."+j.stream, inbox, body); err != nil {
		return nil, err
	}
	for {
		m, err := j.answers.NextMsgWithContext(ctx)
		if err != nil {
			if len(list) > 0 && ctx.Err() != nil {
				return list, nil // the server is gone
			}
			return nil, fmt.Errorf("NATS: %w", err)
		}
		if m.Subject != inbox { // of a request that was given up
			continue
		}
		switch status := m.Header.Get("Status"); {
		case status == "204" || status == "404": // the end; none
			return list, nil
		case status != "":
			return nil, fmt.Errorf("NATS: %s %s", status, m.Header.Get("Description"))
		}
		seq, err := strconv.ParseUint(m.Header.Get(nats.JSSequence), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("NATS: a message without a number: %w", err)
		}
		list = append(list, &message{Sequence: seq, Subject: m.Header.Get(nats.JSSubject), Header: m.Header, Data: m.Data})
	}
}

// firstAfter returns the first message of the first entry after a number that is stored. last is
// the stream's last message.
func (j *Journal) firstAfter(ctx context.Context, entry, last uint64) (uint64, error) {
	return j.search(ctx, last, func(m *message) (bool, error) {
		p, err := m.part()
		return p.Seq > entry, err
	})
}

// search returns the first message for which f is true, or the one after last. f must not become
// false again.
func (j *Journal) search(ctx context.Context, last uint64, f func(*message) (bool, error)) (uint64, error) {
	s, err := j.state(ctx)
	if err != nil {
		return 0, err
	}
	return engine.Search(s.FirstSeq, last+1, func(seq uint64) (bool, error) {
		m, err := j.get(ctx, seq)
		if errors.Is(err, nats.ErrMsgNotFound) {
			if s, err := j.state(ctx); err != nil || seq < s.FirstSeq { // dropped since
				return false, err
			}
			return false, j.lacks(seq)
		}
		if err != nil {
			return false, err
		}
		return f(m)
	})
}

func (j *Journal) Old(ctx context.Context, limit int64) (uint64, error) {
	end, err := j.end(ctx)
	if err != nil || end.Seq == 0 {
		return 0, err
	}
	old := uint64(0)
	_, err = j.search(ctx, end.message, func(m *message) (bool, error) {
		p, err := m.part()
		if err != nil {
			return false, err
		}
		if end.total-p.total > limit {
			old = max(old, p.Seq)
			return false, nil
		}
		return true, nil
	})
	return old, err
}

func (j *Journal) Drop(ctx context.Context, upTo uint64) error {
	end, err := j.end(ctx)
	if err != nil || end.Seq == 0 {
		return err
	}
	keep, err := j.firstAfter(ctx, min(upTo, end.Seq-1), end.message)
	if err != nil {
		return err
	}
	return j.leader.PurgeStream(j.stream, &nats.StreamPurgeRequest{Sequence: keep})
}
