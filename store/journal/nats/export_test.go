package nats

import (
	"context"
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
	return &logger{to: to, said: map[string]time.Time{}}
}

// Later lets the time between two logs of the same message pass.
func Later(l server.Logger) { clear(l.(*logger).said) }

// Rewrite stores what f returns for the current entries in a new stream. An election may lose the answer
// to any request, so each is made again until ctx ends.
func (j *Journal) Rewrite(ctx context.Context, f func([]journal.Entry) []journal.Entry) error {
	js, err := jetstream.New(j.nc)
	if err != nil {
		return err
	}
	var list []journal.Entry
	if err := again(ctx, func(context.Context, bool) error {
		list, err = j.all(ctx)
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
				if !first && refused && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
					api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
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

// all returns all entries.
func (j *Journal) all(ctx context.Context) (list []journal.Entry, err error) {
	for after := uint64(0); ; after = list[len(list)-1].Seq {
		page, err := j.page(ctx, after, true)
		if list = append(list, page...); err != nil || len(page) == 0 {
			return list, err
		}
	}
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
	return s.current().JetStreamSnapshotStream("$G", "freshet_"+name)
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
	state, _, _ := s.copy("freshet_" + name)
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

// Lead makes a member the leader of the stream. Its error says who is. A request may get no answer while the leader changes.
func (j *Journal) Lead(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	info, err := j.leader.StreamInfo(j.stream, nats.Context(ctx))
	if err != nil || info.Cluster.Leader == node {
		return err
	}
	_, err = j.nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+j.stream, []byte(`{"placement":{"preferred":"`+node+`"}}`))
	return fmt.Errorf("%s leads (%w)", info.Cluster.Leader, err)
}

// Absence is an absence.
type Absence = absence

// Outlasts is outlasts.
func (a *absence) Outlasts(patience time.Duration) bool { return a.outlasts(patience) }

// CreateWithLoss makes the stream again while the answer to a request for its state, the first of which has number 1, is lost.
func (j *Journal) CreateWithLoss(ctx context.Context, number int) error {
	is := j.leader
	defer func() { j.leader = is }()
	j.leader = &losing{is, number}
	return j.create(ctx)
}

type losing struct {
	nats.JetStreamContext
	left int
}

func (l *losing) StreamInfo(stream string, o ...nats.JSOpt) (*nats.StreamInfo, error) {
	if l.left--; l.left == 0 {
		return nil, context.DeadlineExceeded
	}
	return l.JetStreamContext.StreamInfo(stream, o...)
}

// Look looks at the copy of the own member now.
func (j *Journal) Look() error {
	j.copy.mu.Lock()
	j.copy.last = time.Time{}
	j.copy.mu.Unlock()
	return j.damage()
}
