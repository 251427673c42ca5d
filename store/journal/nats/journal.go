package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/internal/engine"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Config describes a journal in JetStream. Only Name is required.
type Config struct {
	Name     string        // of the cluster
	Replicas int           // of a new stream: 3 by default
	InFlight int64         // bytes of commands whose Append has not returned
	Patience time.Duration // before a journal that looks shortened, or lacks a message, is taken to be so; see defaultPatience
	Own      *Server       // of this node; nil if the servers run elsewhere
}

const (
	// defaultPatience is longer than a server that lost its majority takes to notice: until then
	// it may answer with an older end of the journal. It is also longer than a server whose files are
	// damaged takes to notice: until then it may lack messages that the others have.
	defaultPatience = 20 * time.Second
	// largestChunk is the size of a message's data. A message of 1 MiB is the limit of a server
	// that is not configured otherwise.
	largestChunk = 512 << 10
	// mostMessages is JetStream's limit of an atomic batch.
	mostMessages = 1000
)

// A Journal is one node's access to a journal. It implements journal.Journal.
type Journal struct {
	config Config
	nc     *nats.Conn
	own    bool // nc is closed by Close
	stream string
	writer *engine.Writer
	calls  *calls
	terms  *nats.Subscription // says when the stream gets a leader
	mark   engine.Watermark
	read   atomic.Uint64 // number of the last message that was read
	copy   copyWatch
	ctx    context.Context
	stop   context.CancelFunc

	mu      sync.Mutex
	tip     *tip    // the end as last seen; nil if unknown
	unknown absence // of the stream
	hole    uint64  // the message that its leader lacks, as far as is known; 0 for none
	missing absence // of that message
}

var _ journal.Journal = (*Journal)(nil)

// A tip is the end of the journal.
type tip struct {
	journal.Position
	message uint64 // sequence number of the last message
	total   int64  // bytes of all commands
}

// Dial opens a journal on the servers of a URL, which may list several with commas.
func Dial(ctx context.Context, url string, c Config, options ...nats.Option) (*Journal, error) {
	options = append([]nats.Option{
		nats.Name("freshet " + c.Name), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1),
	}, options...)
	nc, err := nats.Connect(url, options...)
	if err != nil {
		return nil, fmt.Errorf("cluster.journal: %w", err)
	}
	j, err := Open(ctx, nc, c)
	if err != nil {
		nc.Close()
		return nil, err
	}
	j.own = true
	return j, nil
}

// Open opens a journal on a connection, which must not buffer messages while it is interrupted
// (nats.ReconnectBufSize(-1)). It creates the stream if necessary and waits until the servers
// have a majority.
func Open(ctx context.Context, nc *nats.Conn, c Config) (*Journal, error) {
	if err := journal.CheckName(c.Name); err != nil {
		return nil, err
	}
	if c.Replicas == 0 {
		c.Replicas = 3
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	j := &Journal{config: c, nc: nc, stream: streamName(c.Name), calls: newCalls()}
	err := j.watchTerms()
	if err == nil {
		err = j.create(ctx)
	}
	if err != nil {
		j.leave()
		return nil, fmt.Errorf("cluster.journal: stream %s: %w", j.stream, err)
	}
	j.ctx, j.stop = context.WithCancel(context.Background())
	j.writer = engine.NewWriter(j.commit, c.InFlight)
	return j, nil
}

// watchTerms sends the requests that wait for an answer again when the stream gets a leader.
func (j *Journal) watchTerms() (err error) {
	j.terms, err = j.nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+j.stream, func(*nats.Msg) { j.calls.elected() })
	return err
}

// leave ends what Open has begun on the connection.
func (j *Journal) leave() {
	if j.terms != nil {
		_ = j.terms.Unsubscribe() // fails only if the connection is closed
	}
}

// damage returns an error if the member of this node must not go on.
func (j *Journal) damage() error {
	return j.copy.damage(j.config.Own, j.stream, j.read.Load(), j.config.Patience)
}

func streamName(name string) string { return "freshet_" + name }

// The subjects of a journal's messages: entries by their ids, the chunks of large commands, and
// all messages as they are published again once they are committed.
func (j *Journal) entrySubject(id string) string { return j.stream + ".entry." + id }
func (j *Journal) chunkSubject() string          { return j.stream + ".chunk" }
func (j *Journal) liveSubject() string           { return "live." + j.stream }

func (j *Journal) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: j.stream, Subjects: []string{j.stream + ".>"}, Replicas: j.config.Replicas,
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		DenyDelete: true, AllowAtomicPublish: true, AllowDirect: true,
		RePublish: &jetstream.RePublish{Source: j.stream + ".>", Destination: j.liveSubject() + ".>"},
	}
}

// noPeers is JetStream's code for a stream that has more replicas than servers run.
const noPeers jetstream.ErrorCode = 10005

// create makes the stream, as soon as the servers can, and checks it.
func (j *Journal) create(ctx context.Context) error {
	js, err := jetstream.New(j.nc)
	if err != nil {
		return err
	}
	for last := errors.New("no answer"); ; {
		info, err := j.createOnce(ctx, js)
		switch damage := j.damage(); {
		case damage != nil:
			return damage
		case err == nil:
			if err := j.check(info); err != nil {
				return err
			}
			return j.checkFirst(ctx)
		case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return err
		case ctx.Err() == nil:
			last = err
		}
		select {
		case <-ctx.Done():
			if api, ok := errors.AsType[*jetstream.APIError](last); ok && api.ErrorCode == noPeers {
				return fmt.Errorf("%w (%w): start %d servers, because a journal begins on all that keep it; later a majority of them is enough", ctx.Err(), last, j.config.Replicas)
			}
			return fmt.Errorf("%w (%w): are a majority of its servers running?", ctx.Err(), last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (j *Journal) createOnce(ctx context.Context, js jetstream.JetStream) (*jetstream.StreamInfo, error) {
	brief, done := j.calls.begin(ctx, 0)
	s, err := js.CreateStream(brief, j.streamConfig())
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		s, err = js.Stream(brief, j.stream)
	}
	done(err)
	if err == nil {
		err = j.askLeader(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// askLeader asks since when the stream has its leader. Only the leader answers. Later elections are
// reported to watchTerms.
func (j *Journal) askLeader(ctx context.Context) error {
	var info struct {
		leadership
		apiAnswer
	}
	if err := j.request(ctx, "STREAM.INFO", nil, &info); err != nil {
		return err
	}
	if lasts, elected := info.lasts(); elected {
		j.calls.led(lasts)
	}
	return j.apiError(info.Error)
}

// A leadership is what the leader of a stream says of itself. Both times are by its own clock.
type leadership struct {
	TS      time.Time `json:"ts"`
	Cluster struct {
		Group string     `json:"raft_group"`
		Since *time.Time `json:"leader_since"`
	} `json:"cluster"`
}

// lasts returns how long the leader has led, 0 if it does not tell or if its clock was set back. A stream
// with one replica has no elections.
func (l *leadership) lasts() (_ time.Duration, elected bool) {
	if l.Cluster.Since == nil || l.TS.IsZero() {
		return 0, l.Cluster.Group != ""
	}
	return max(0, l.TS.Sub(*l.Cluster.Since)), true
}

// check refuses a stream that does not keep what the contract promises.
func (j *Journal) check(info *jetstream.StreamInfo) error {
	switch c := info.Config; {
	case !c.AllowAtomicPublish:
		return errors.New("atomic batches are off: use nats-server 2.12 or later, and set allow_atomic")
	case c.Storage != jetstream.FileStorage:
		return errors.New("its storage is not file")
	case c.MaxAge > 0 || c.Retention != jetstream.LimitsPolicy || c.MaxMsgs > 0 || c.MaxMsgsPerSubject > 0 || c.Discard != jetstream.DiscardNew:
		return errors.New("its limits drop messages: remove them; entries are dropped by Freshet")
	case c.RePublish == nil || c.RePublish.HeadersOnly || c.RePublish.Destination != j.liveSubject()+".>":
		return fmt.Errorf("messages are not published again: set republish from %s.> to %s.>", j.stream, j.liveSubject())
	case !c.AllowDirect:
		return errors.New("set allow_direct")
	case c.Replicas < j.config.Replicas:
		return fmt.Errorf("it has %d replicas, %d are wanted: run nats stream edit --replicas", c.Replicas, j.config.Replicas)
	}
	return nil
}

// Append implements journal.Journal.
func (j *Journal) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	return j.writer.Append(ctx, id, cmd)
}

// Read implements journal.Journal.
func (j *Journal) Read(ctx context.Context, after journal.Position, f func(journal.Entry) error) error {
	s := &source{Journal: j}
	defer s.close()
	return engine.Reader{Name: j.config.Name, Mark: &j.mark, Closed: j.ctx}.Read(ctx, s, after, f)
}

// Head implements journal.Journal.
func (j *Journal) Head(ctx context.Context) (journal.Position, error) {
	if j.ctx.Err() != nil {
		return journal.Position{}, journal.ErrClosed
	}
	for {
		term, err := j.calls.settled(ctx)
		if err != nil {
			return journal.Position{}, err
		}
		t, err := j.end(ctx)
		if err != nil {
			return journal.Position{}, err
		}
		if term.Err() == nil { // else the answer may come from a leader that is not settled
			return t.Position, nil
		}
	}
}

// Close implements journal.Journal.
func (j *Journal) Close() error {
	j.stop()
	j.writer.Close()
	j.leave()
	if j.own {
		j.nc.Close()
	}
	return nil
}

// commit appends items in one atomic batch. The batch is accepted only if it continues the last
// message, and if the stream has no entry with one of the ids.
func (j *Journal) commit(ctx context.Context, items []engine.Item) ([]uint64, error) {
	if err := j.damage(); err != nil {
		return nil, err
	}
	seqs := make([]uint64, len(items))
	for tries := 1; ; tries++ {
		at, err := j.known(ctx)
		if err != nil {
			return nil, err
		}
		batch, end, err := j.encode(at, items, seqs)
		if err != nil || len(batch) == 0 {
			return seqs, err
		}
		err = j.publish(ctx, batch)
		if err == nil {
			j.setTip(end)
			j.mark.Raise(end.Position)
			return seqs, nil
		}
		j.setTip(nil)
		if !isConflict(err) {
			return nil, err
		}
		if err := j.resolve(ctx, at, items, seqs); err != nil {
			return nil, err
		}
		// Another node was faster. The more often, the longer the others get.
		pause := time.Duration(rand.Int64N(int64(min(tries, 20)) * int64(500*time.Microsecond)))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// resolve looks again after a conflict. If the end has not moved, a command may be an entry
// already; resolve sets the numbers of those that are, and 0 for the others.
func (j *Journal) resolve(ctx context.Context, before *tip, items []engine.Item, seqs []uint64) error {
	now, err := j.known(ctx)
	if err != nil {
		return err
	}
	clear(seqs)
	if now.message != before.message {
		return nil
	}
	for i, it := range items {
		m, err := j.get(ctx, getRequest{Last: j.entrySubject(it.ID)})
		if errors.Is(err, errNoMessage) {
			continue
		}
		if err != nil {
			return err
		}
		p, err := m.entry()
		if err != nil {
			return err
		}
		seqs[i] = p.Seq
	}
	return nil
}

// encode returns the messages that append the items without a number after a tip, sets their
// numbers, and returns the new tip.
func (j *Journal) encode(at *tip, items []engine.Item, seqs []uint64) (batch []*nats.Msg, end *tip, err error) {
	t := *at
	chunk := min(largestChunk, int(j.nc.MaxPayload())/2)
	for i, it := range items {
		if seqs[i] != 0 {
			continue
		}
		e := t.Next(it.ID, it.Command)
		t.Position = e.Position
		t.total += int64(len(it.Command))
		seqs[i] = e.Seq
		batch = append(batch, j.messages(&e, t.total, chunk)...)
	}
	if len(batch) > mostMessages {
		return nil, nil, fmt.Errorf("%w: it takes %d messages of %d bytes, %d are allowed: raise max_payload of the NATS servers to 1 MiB", journal.ErrTooLarge, len(batch), chunk, mostMessages)
	}
	t.message += uint64(len(batch))
	if len(batch) > 0 {
		batch[0].Header.Set(nats.ExpectedLastSeqHdr, fmt.Sprint(at.message))
	}
	return batch, &t, nil
}

// known returns the end as last seen, or asks for it. An end before what this node knows is
// asked for again, since it may come from a server that is cut off.
func (j *Journal) known(ctx context.Context) (*tip, error) {
	j.mu.Lock()
	t := j.tip
	j.mu.Unlock()
	if t != nil {
		return t, nil
	}
	mark := j.mark.Position() // before the end is asked for, since both move
	t, err := j.endAtLeast(ctx, mark.Seq)
	if err != nil {
		return nil, err
	}
	if err := engine.Continues(mark, t.Position); err != nil {
		return nil, err
	}
	j.setTip(t)
	return t, nil
}

func (j *Journal) setTip(t *tip) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tip = t
}

// endAtLeast returns the end of the journal. If that is before a number, it asks again until
// that has lasted for the patience.
func (j *Journal) endAtLeast(ctx context.Context, atLeast uint64) (*tip, error) {
	for short := (absence{}); ; {
		t, err := j.end(ctx)
		if err != nil || t.Seq >= atLeast || short.outlasts(j.config.Patience) {
			return t, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(j.config.Patience / looks):
		}
	}
}

// end asks the stream's leader for the end of the journal.
func (j *Journal) end(ctx context.Context) (*tip, error) {
	m, err := j.get(ctx, getRequest{Last: ">"})
	if errors.Is(err, errNoMessage) {
		return j.emptyEnd(ctx)
	}
	if err != nil {
		return nil, err
	}
	e, err := m.entry()
	if err != nil {
		return nil, err
	}
	return &tip{e.Position, m.seq, e.total}, nil
}

// emptyEnd returns the end of a stream without messages, which must never have had any.
func (j *Journal) emptyEnd(ctx context.Context) (*tip, error) {
	s, err := j.state(ctx)
	switch {
	case err != nil:
		return nil, err
	case s.Msgs > 0: // since the question
		return nil, errors.New("the stream has its first messages now")
	case s.LastSeq > 0:
		return nil, j.lacks(s.LastSeq)
	}
	return &tip{Position: journal.Genesis(j.config.Name)}, nil
}

// state returns the state of the stream as its leader knows it.
func (j *Journal) state(ctx context.Context) (s jetstream.StreamState, err error) {
	var info struct {
		State jetstream.StreamState `json:"state"`
		apiAnswer
	}
	if err := j.request(ctx, "STREAM.INFO", nil, &info); err != nil {
		return s, err
	}
	return info.State, j.apiError(info.Error)
}

// Old implements journal.Journal.
func (j *Journal) Old(ctx context.Context, age time.Duration, limit int64) (uint64, error) {
	end, err := j.end(ctx)
	if err != nil || end.Seq == 0 {
		return 0, err
	}
	now := time.Now()
	old := uint64(0)
	_, err = j.search(ctx, end.message, func(m *message) (bool, error) {
		p, err := m.part()
		if err != nil {
			return false, err
		}
		if age > 0 && now.Sub(m.at) > age || limit > 0 && end.total-p.total > limit {
			old = max(old, p.Seq)
			return false, nil
		}
		return true, nil
	})
	return old, err
}

// Drop implements journal.Journal.
func (j *Journal) Drop(ctx context.Context, upTo uint64) error {
	end, err := j.end(ctx)
	if err != nil || end.Seq == 0 {
		return err
	}
	upTo = min(upTo, end.Seq-1)
	keep, err := j.firstAfter(ctx, upTo, end.message)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]uint64{"seq": keep})
	if err != nil {
		return err
	}
	var answer apiAnswer
	if err := j.request(ctx, "STREAM.PURGE", body, &answer); err != nil {
		return err
	}
	return j.apiError(answer.Error)
}

// firstAfter returns the first message of the first entry after a number that is stored. last is
// the stream's last message.
func (j *Journal) firstAfter(ctx context.Context, seq, last uint64) (uint64, error) {
	return j.search(ctx, last, func(m *message) (bool, error) {
		p, err := m.part()
		return p.Seq > seq, err
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
		m, err := j.get(ctx, getRequest{Seq: seq})
		if errors.Is(err, errNoMessage) {
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

// lacks returns an error because the leader of the stream lacks a message. The journal counts as altered
// only after the patience, since the leader may be a member whose files are damaged.
func (j *Journal) lacks(seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.hole != seq {
		j.hole, j.missing = seq, absence{}
	}
	if j.missing.outlasts(j.config.Patience) {
		return journal.Altered("message %d of stream %s is missing", seq, j.stream)
	}
	return fmt.Errorf("message %d of stream %s is missing at its leader", seq, j.stream)
}

// found notes that a member has a message.
func (j *Journal) found(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.hole == seq {
		j.hole = 0
	}
}
