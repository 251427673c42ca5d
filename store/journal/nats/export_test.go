package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/internal/engine"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NewLogger returns what adapts the messages of a server to a log.
func NewLogger(to *slog.Logger) server.Logger {
	return &logger{to: to, warned: map[string]bool{}, said: map[string]time.Time{}}
}

// Later lets the time between two logs of the same message pass.
func Later(l server.Logger) { clear(l.(*logger).said) }

// Attempts is the number of attempts to connect to another member until there is a warning.
const Attempts = routeAttempts

// Rewrite stores what f returns for the current entries in a new stream. An election may lose the answer
// to any request, so each is made again until ctx ends.
func (j *Journal) Rewrite(ctx context.Context, f func([]journal.Entry) []journal.Entry) error {
	js, err := jetstream.New(j.nc)
	if err != nil {
		return err
	}
	var list []journal.Entry
	if err := again(ctx, func(context.Context, bool) error {
		s := source{Journal: j}
		defer s.close()
		list, err = s.Page(ctx, 0)
		return err
	}); err != nil {
		return err
	}
	if err := j.remove(ctx, js); err != nil {
		return err
	}
	if err := j.create(ctx); err != nil {
		return err
	}
	last := uint64(0)
	for _, e := range f(list) {
		for _, m := range j.messages(&e, 0, largestChunk) {
			m.Header.Del(nats.ExpectedLastSubjSeqHdr)
			if err := again(ctx, func(ctx context.Context, first bool) error {
				_, err := js.PublishMsg(ctx, m, jetstream.WithExpectLastSequence(last))
				api, refused := errors.AsType[*jetstream.APIError](err)
				if !first && refused && (api.ErrorCode == codeWrongLast || api.ErrorCode == codeWrongLastConstant) {
					return nil // an earlier attempt has stored it
				}
				return err
			}); err != nil {
				return err
			}
			last++
		}
	}
	return nil
}

// remove deletes the stream.
func (j *Journal) remove(ctx context.Context, js jetstream.JetStream) error {
	return again(ctx, func(ctx context.Context, _ bool) error {
		err := js.DeleteStream(ctx, j.stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	})
}

// again makes a request, which has two seconds each time, until it succeeds.
func again(ctx context.Context, request func(ctx context.Context, first bool) error) error {
	for first := true; ; first = false {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := request(once, first)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// BeginLarge sends all messages of a large command except the last.
func (j *Journal) BeginLarge(ctx context.Context, id string, size int) error {
	at, err := j.known(ctx)
	if err != nil {
		return err
	}
	batch, _, err := j.encode(at, []engine.Item{{ID: id, Command: make([]byte, size)}}, make([]uint64, 1))
	if err != nil {
		return err
	}
	j.setTip(nil)
	batch[len(batch)-1] = &nats.Msg{Subject: "nowhere", Header: nats.Header{}}
	if err = j.publish(ctx, batch); !errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("a message that went nowhere: %w", err)
	}
	return nil
}

// Snapshot makes the server write a snapshot of a journal's group.
func (s *Server) Snapshot(name string) error {
	return s.current().JetStreamSnapshotStream("$G", streamName(name))
}

// Forget deletes the stream and returns what the servers then say about its state.
func (j *Journal) Forget(ctx context.Context) error {
	js, err := jetstream.New(j.nc)
	if err != nil {
		return err
	}
	if err := j.remove(ctx, js); err != nil {
		return err
	}
	_, err = j.state(ctx)
	return err
}

// Copy returns the state of this member's own copy of a journal.
func (s *Server) Copy(name string) server.StreamState {
	state, _, _ := s.copy(streamName(name))
	return state
}

// Messages returns how many messages the leader has.
func (j *Journal) Messages(ctx context.Context) uint64 {
	s, err := j.state(ctx)
	if err != nil {
		return 0
	}
	return s.Msgs
}

// Lead makes a member the leader of the stream. Its error says who is.
func (j *Journal) Lead(ctx context.Context, node string) error {
	var info struct {
		Cluster struct{ Leader string }
	}
	err := j.request(ctx, "STREAM.INFO", nil, &info)
	if err == nil && info.Cluster.Leader == node {
		return nil
	}
	var answer apiAnswer
	err = errors.Join(err, j.request(ctx, "STREAM.LEADER.STEPDOWN", []byte(`{"placement":{"preferred":"`+node+`"}}`), &answer), j.apiError(answer.Error))
	return fmt.Errorf("%s leads (%w)", info.Cluster.Leader, err)
}

// Unanswered sends a request that gets no answer, and waits for the answer for as long as a journal does
// that would wait for an hour.
func (j *Journal) Unanswered(sent func()) error {
	s, err := j.nc.SubscribeSync("unanswered")
	if err != nil {
		return err
	}
	defer func() { _ = s.Unsubscribe() }()
	j.calls.mu.Lock()
	j.calls.wait = time.Hour
	j.calls.mu.Unlock()
	ctx, done := j.calls.begin(context.Background(), 0)
	sent()
	_, err = j.nc.RequestWithContext(ctx, "unanswered", nil)
	done(err)
	return err
}

// Lasts returns how long the leader that gives an answer has led.
func Lasts(answer []byte) (time.Duration, bool) {
	var l leadership
	if err := json.Unmarshal(answer, &l); err != nil {
		panic(err)
	}
	return l.lasts()
}

// Elected tells a journal that the stream has a leader.
func (j *Journal) Elected() { j.calls.elected() }

// SetElected sets when the stream got its leader.
func (j *Journal) SetElected(at time.Time) {
	j.calls.mu.Lock()
	defer j.calls.mu.Unlock()
	j.calls.last = at
}

// LastElected returns when the stream got its leader, as far as is known.
func (j *Journal) LastElected() time.Time {
	j.calls.mu.Lock()
	defer j.calls.mu.Unlock()
	return j.calls.last
}

// Calls are the requests of a journal.
type Calls struct{ *calls }

// NewCalls returns calls without a journal.
func NewCalls() Calls { return Calls{newCalls()} }

// Begin is begin without time in addition.
func (c Calls) Begin(ctx context.Context) (context.Context, func(error)) { return c.begin(ctx, 0) }

// Elected is elected.
func (c Calls) Elected() { c.elected() }

// Led notes how long the stream has had its leader.
func (c Calls) Led(since time.Duration) { c.led(since) }

// Repeat is repeat.
func (c Calls) Repeat(ctx context.Context, request func(context.Context) error) error {
	return c.repeat(ctx, request)
}

// Settled is settled.
func (c Calls) Settled(ctx context.Context) error {
	_, err := c.settled(ctx)
	return err
}

// Absence is an absence.
type Absence = absence

// Outlasts is outlasts.
func (a *absence) Outlasts(patience time.Duration) bool { return a.outlasts(patience) }
