package nats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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
	Patience time.Duration // before a journal that looks shortened, or lacks a message, is taken to be so; see defaultPatience
	Own      *Server       // of this node; nil if the servers run elsewhere
	// Waits, unless nil, is called with the error of each attempt in vain to open the journal.
	Waits func(err error)
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
	// poll is the time between two looks for what other nodes have appended, if JetStream does not tell.
	poll = 250 * time.Millisecond
	// answerWait is how long an answer is awaited. It is lost if its connection breaks, or if the leader of
	// the stream is gone, and the next leader does not know the request, so it is sent again then.
	answerWait = 2 * time.Second
	createWait = 5 * time.Second // of the stream
)

// A Journal is one node's access to a journal. It implements journal.Journal.
type Journal struct {
	*engine.Node
	config Config
	nc     *nats.Conn
	own    bool // nc is closed by Close
	stream string
	leader nats.JetStreamContext // of the older API, which asks the stream's leader, not any server
	copy   copyWatch
	live   *nats.Subscription // to what others append

	fetching sync.Mutex         // guards what follows
	answers  *nats.Subscription // to fetches
	inbox    string             // begins the subjects of answers
	fetches  uint64

	mu     sync.Mutex // guards what follows
	tip    *tip       // the end as last seen; nil if unknown
	read   place      // where the last entry ends that was read
	absent map[string]*absence
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
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2), // as between members, see package doc
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
	j := &Journal{config: c, nc: nc, stream: "freshet_" + c.Name, inbox: nc.NewInbox(), absent: map[string]*absence{}}
	j.Node = engine.Engine{Name: c.Name, Poll: poll, Commit: j.commit, Span: j.span, Page: j.page}.Open()
	var err error
	if j.leader, err = nc.JetStream(nats.MaxWait(answerWait)); err == nil {
		err = j.create(ctx)
	}
	if err == nil {
		j.answers, err = nc.SubscribeSync(j.inbox + ".*")
	}
	if err == nil {
		j.live, err = nc.Subscribe(j.liveSubject()+".>", func(*nats.Msg) { j.Wake() })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster.journal: stream %s: %w", j.stream, err), j.Node.Close())
	}
	return j, nil
}

// damage returns an error if the member of this node must not go on.
func (j *Journal) damage() error {
	j.mu.Lock()
	read := j.read.message
	j.mu.Unlock()
	return j.copy.damage(j.config.Own, j.stream, read, j.config.Patience)
}

// The subjects of a journal's messages: entries by their ids, the chunks of large commands, and what
// JetStream publishes when it has committed a message.
func (j *Journal) entrySubject(id string) string { return j.stream + ".entry." + id }
func (j *Journal) chunkSubject() string          { return j.stream + ".chunk" }
func (j *Journal) liveSubject() string           { return "live." + j.stream }

func (j *Journal) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: j.stream, Subjects: []string{j.stream + ".>"}, Replicas: j.config.Replicas,
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		DenyDelete: true, AllowAtomicPublish: true, AllowDirect: true,
		RePublish: &jetstream.RePublish{Source: j.stream + ".>", Destination: j.liveSubject() + ".>", HeadersOnly: true},
	}
}

// JetStream's codes for a stream that has more replicas than servers run, and that has several at a server without a cluster.
const (
	noPeers   jetstream.ErrorCode = 10005
	noCluster jetstream.ErrorCode = 10074
)

func hasCode(err error, code jetstream.ErrorCode) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}

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
			if err = j.checkFirst(ctx); err == nil || errors.Is(err, journal.ErrDamaged) {
				return err
			}
		case j.config.Own == nil && (errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
			errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)):
			return err
		case hasCode(err, noCluster):
			return fmt.Errorf("%w: set cluster.replicas to 1, or run %d servers as a cluster", err, max(j.config.Replicas, 3))
		}
		if ctx.Err() == nil {
			last = j.awaits(err)
		}
		select {
		case <-ctx.Done():
			if hasCode(last, noPeers) {
				return fmt.Errorf("%w (%w)", ctx.Err(), last)
			}
			return fmt.Errorf("%w (%w): are a majority of its servers running?", ctx.Err(), last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// awaits reports why an attempt to open the journal was in vain, and returns that.
func (j *Journal) awaits(err error) error {
	switch {
	case hasCode(err, noPeers):
		remedy := ""
		if j.config.Own == nil {
			remedy = ", or lower cluster.replicas"
		}
		err = fmt.Errorf("%w: start %d servers%s, because a journal begins on all that keep it; later a majority of them is enough",
			err, j.config.Replicas, remedy)
	case !j.nc.IsConnected() && j.nc.LastError() != nil:
		err = fmt.Errorf("%w (%w)", j.nc.LastError(), err)
	}
	if j.config.Waits != nil {
		j.config.Waits(err)
	}
	return err
}

func (j *Journal) createOnce(ctx context.Context, js jetstream.JetStream) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	s, err := js.CreateStream(ctx, j.streamConfig())
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		s, err = js.Stream(ctx, j.stream)
	}
	if err == nil && j.config.Own != nil && s.CachedInfo().Config.Replicas < j.config.Replicas {
		s = j.extend(ctx, js, s)
	}
	if err == nil {
		_, err = j.state(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// leastMembers is how many members keep a stream at least that has more of them. Earlier versions, and gateways that come first,
// make it so.
const leastMembers = 3

// extend makes as many members keep the stream as should. That takes all of them. Without it, the stream is used as it is.
func (j *Journal) extend(ctx context.Context, js jetstream.JetStream, s jetstream.Stream) jetstream.Stream {
	c := s.CachedInfo().Config
	is := c.Replicas
	c.Replicas = j.config.Replicas
	extended, err := js.UpdateStream(ctx, c)
	if err == nil {
		return extended
	}
	if j.copy.partly() {
		j.config.Own.config.Log.Warn("too few members keep the journal", "members", is, "of", j.config.Replicas, "error", err,
			"remedy", "start all members, and then one of them again")
	}
	return s
}

// check refuses a stream that does not keep what the contract promises.
func (j *Journal) check(info *jetstream.StreamInfo) error {
	wanted := j.config.Replicas
	if j.config.Own != nil {
		wanted = min(wanted, leastMembers)
	}
	switch c := info.Config; {
	case !c.AllowAtomicPublish:
		return errors.New("atomic batches are off: use nats-server 2.12 or later, and set allow_atomic")
	case c.Storage != jetstream.FileStorage:
		return errors.New("its storage is not file")
	case c.MaxAge > 0 || c.Retention != jetstream.LimitsPolicy || c.MaxMsgs > 0 || c.MaxMsgsPerSubject > 0 ||
		c.Discard != jetstream.DiscardNew:
		return errors.New("its limits drop messages: remove them; entries are dropped by Freshet")
	case !c.AllowDirect:
		return errors.New("set allow_direct")
	case c.Replicas < wanted:
		return fmt.Errorf("it has %d replicas, %d are wanted: run nats stream edit --replicas", c.Replicas, wanted)
	}
	return nil
}

func (j *Journal) Head(ctx context.Context) (journal.Position, error) {
	if err := j.Closed(); err != nil {
		return journal.Position{}, err
	}
	t, err := j.end(ctx)
	if err != nil {
		return journal.Position{}, err
	}
	return t.Position, nil
}

func (j *Journal) Close() error {
	err := j.Node.Close()
	if j.own {
		j.nc.Close()
		return err
	}
	return errors.Join(err, j.answers.Unsubscribe(), j.live.Unsubscribe())
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
			j.Mark.Raise(end.Position)
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
		m, err := j.last(ctx, j.entrySubject(it.ID))
		if errors.Is(err, nats.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		p, err := m.end()
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
		return nil, nil, fmt.Errorf("%w: it takes %d messages of %d bytes, %d are allowed: raise max_payload of the NATS servers "+
			"to 1 MiB", journal.ErrTooLarge, len(batch), chunk, mostMessages)
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
	mark := j.Mark.Position() // before the end is asked for, since both move
	t, err := j.endAtLeast(ctx, mark.Seq)
	if err != nil {
		return nil, err
	}
	if err := engine.Within(mark, 0, t.Position); err != nil {
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

// endAtLeast returns the end of the journal. That it is before a number is an outage at first, see absence.
func (j *Journal) endAtLeast(ctx context.Context, atLeast uint64) (*tip, error) {
	t, err := j.end(ctx)
	switch {
	case err != nil:
		return nil, err
	case t.Seq >= atLeast:
		j.found("its end")
	case !j.missing("its end"):
		return nil, fmt.Errorf("stream %s ends with entry %d at its leader, %d was there", j.stream, t.Seq, atLeast)
	}
	return t, nil
}

// end asks the stream's leader for the end of the journal.
func (j *Journal) end(ctx context.Context) (*tip, error) {
	m, err := j.last(ctx, ">")
	if errors.Is(err, nats.ErrMsgNotFound) {
		return j.emptyEnd(ctx)
	}
	if err != nil {
		return nil, err
	}
	e, err := m.end()
	if err != nil {
		return nil, err
	}
	return &tip{e.Position, m.Sequence, e.total}, nil
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
func (j *Journal) state(ctx context.Context) (s nats.StreamState, err error) {
	info, err := ask(ctx, j, func(o ...nats.JSOpt) (*nats.StreamInfo, error) { return j.leader.StreamInfo(j.stream, o...) })
	if err != nil {
		return s, err
	}
	return info.State, nil
}

// lacks returns an error because the leader of the stream lacks a message. The journal counts as altered
// only after the patience, since the leader may be a member whose files are damaged.
func (j *Journal) lacks(seq uint64) error {
	if j.missing(messageText(seq)) {
		return journal.Altered("message %d of stream %s is missing", seq, j.stream)
	}
	return fmt.Errorf("message %d of stream %s is missing at its leader", seq, j.stream)
}

func messageText(seq uint64) string { return fmt.Sprint("message ", seq) }

// missing notes that something was looked for in vain. It reports whether that has lasted for the patience.
func (j *Journal) missing(what string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.absent[what] == nil {
		j.absent[what] = &absence{}
	}
	return j.absent[what].outlasts(j.config.Patience)
}

// found notes that something is there that may have been missing.
func (j *Journal) found(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.absent, what)
}

// looks is how often this node looks at least for what seems to be missing, before it takes it to be so.
const looks = 20

// An absence is how long something has been missing, as far as this node has looked for it. The time
// between two looks counts only in part if it is long: a process that was stopped, or a machine that was
// suspended, asks servers that have not noticed yet that they are out of date.
type absence struct {
	last   time.Time // of the looks; zero before the first
	lasted time.Duration
}

// outlasts notes a look in vain, and reports whether the absence has lasted for the patience.
func (a *absence) outlasts(patience time.Duration) bool {
	now := time.Now()
	if !a.last.IsZero() {
		a.lasted += min(now.Sub(a.last), max(patience/looks, time.Millisecond))
	}
	a.last = now
	return a.lasted >= patience
}
