package nats

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/nats-io/nats.go"
)

// The headers of messages. A small command is one message. A large one is a message for each
// chunk, and a message without data that ends the entry and has its id.
const (
	hdrSeq    = "Freshet-Seq"    // number of the entry
	hdrTotal  = "Freshet-Total"  // bytes of all commands up to this one
	hdrPrev   = "Freshet-Prev"   // hash of the entry before; only at the end of an entry
	hdrHash   = "Freshet-Hash"   // only at the end of an entry
	hdrChunks = "Freshet-Chunks" // number of chunks before the end of an entry

	hdrBatch       = "Nats-Batch-Id"
	hdrBatchSeq    = "Nats-Batch-Sequence"
	hdrBatchCommit = "Nats-Batch-Commit"
)

// A message is a stored message.
type message nats.RawStreamMsg

// A part is what the headers of each message say.
type part struct {
	journal.Entry // without the command
	total         int64
	chunks        int
}

func (j *Journal) messages(e *journal.Entry, total int64, chunk int) (list []*nats.Msg) {
	data := e.Command
	chunks := 0
	if len(data) > chunk {
		for ; len(data) > 0; chunks++ {
			n := min(chunk, len(data))
			list = append(list, &nats.Msg{Subject: j.chunkSubject(), Data: data[:n], Header: partHeader(e.Seq, total)})
			data = data[n:]
		}
	}
	end := &nats.Msg{Subject: j.entrySubject(e.ID), Data: data, Header: partHeader(e.Seq, total)}
	end.Header.Set(hdrPrev, encodeHash(e.Prev))
	end.Header.Set(hdrHash, encodeHash(e.Hash))
	end.Header.Set(hdrChunks, strconv.Itoa(chunks))
	end.Header.Set(nats.ExpectedLastSubjSeqHdr, "0") // no other entry with this id
	return append(list, end)
}

func partHeader(seq uint64, total int64) nats.Header {
	return nats.Header{hdrSeq: {strconv.FormatUint(seq, 10)}, hdrTotal: {strconv.FormatInt(total, 10)}}
}

func encodeHash(h journal.Hash) string { return base64.RawStdEncoding.EncodeToString(h[:]) }

func decodeHash(s string) (h journal.Hash, err error) {
	b, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("%q is not a hash", s)
	}
	return journal.Hash(b), nil
}

// part returns what every message says.
func (m *message) part() (p part, err error) {
	p.Seq, err = strconv.ParseUint(m.Header.Get(hdrSeq), 10, 64)
	if err == nil {
		p.total, err = strconv.ParseInt(m.Header.Get(hdrTotal), 10, 64)
	}
	if err != nil {
		err = journal.Altered("message %d was not written by Freshet", m.Sequence)
	}
	return p, err
}

func (m *message) isEnd() bool { return m.Header.Get(hdrHash) != "" }

// end returns what the last message of an entry says.
func (m *message) end() (p part, err error) {
	if p, err = m.part(); err != nil {
		return p, err
	}
	var errs [3]error
	p.Prev, errs[0] = decodeHash(m.Header.Get(hdrPrev))
	p.Hash, errs[1] = decodeHash(m.Header.Get(hdrHash))
	p.chunks, errs[2] = strconv.Atoi(m.Header.Get(hdrChunks))
	if err := errors.Join(errs[:]...); err != nil {
		return p, journal.Altered("message %d does not end an entry (%v)", m.Sequence, err)
	}
	p.ID = m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	return p, nil
}

// entry returns the entry that a message ends.
func (m *message) entry(chunks []*message) (e journal.Entry, err error) {
	p, err := m.end()
	if err != nil {
		return e, err
	}
	if p.chunks != len(chunks) {
		return e, journal.Altered("entry %d has %d chunks of %d", p.Seq, len(chunks), p.chunks)
	}
	e = p.Entry
	e.Command = m.Data
	if len(chunks) > 0 {
		e.Command = nil
	}
	for _, c := range chunks {
		e.Command = append(e.Command, c.Data...)
	}
	return e, nil
}

// isConflict reports whether a batch was refused because it does not continue the last message,
// or because the stream has an entry with one of the ids.
func isConflict(err error) bool {
	api, ok := errors.AsType[*nats.APIError](err)
	return ok && (api.ErrorCode == nats.JSErrCodeStreamWrongLastSequence || api.ErrorCode == nats.JSErrCodeStreamWrongLastSequenceConstant)
}

// ask makes a request to the stream's leader.
func ask[T any](ctx context.Context, j *Journal, request func(...nats.JSOpt) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	x, err := request(nats.Context(ctx))
	switch {
	case err == nil:
		j.found("the stream")
		return x, nil
	case errors.Is(err, nats.ErrBadHeaderMsg):
		return x, journal.Altered("a message of stream %s has no valid headers", j.stream)
	case errors.Is(err, nats.ErrStreamNotFound) && j.missing("the stream"):
		// A member that begins with an empty directory does not know it at first.
		return x, fmt.Errorf("%w (stream %s: %w)", journal.Shortened(0, j.Mark.Position().Seq), j.stream, err)
	}
	return x, fmt.Errorf("NATS: %w", err)
}

// get asks the stream's leader for a message. The error wraps nats.ErrMsgNotFound if there is none.
func (j *Journal) get(ctx context.Context, seq uint64) (*message, error) {
	m, err := ask(ctx, j, func(o ...nats.JSOpt) (*nats.RawStreamMsg, error) { return j.leader.GetMsg(j.stream, seq, o...) })
	if err == nil {
		j.found(messageText(seq))
	}
	return (*message)(m), err
}

// last is get for the last message of a subject.
func (j *Journal) last(ctx context.Context, subject string) (*message, error) {
	m, err := ask(ctx, j, func(o ...nats.JSOpt) (*nats.RawStreamMsg, error) { return j.leader.GetLastMsg(j.stream, subject, o...) })
	return (*message)(m), err
}

// ackEvery is how many messages of a batch are sent before an answer is awaited.
const ackEvery = 16

// publish sends messages that JetStream stores all or none.
func (j *Journal) publish(ctx context.Context, batch []*nats.Msg) error {
	id := rand.Text()
	for i, m := range batch {
		last := i == len(batch)-1
		if len(batch) > 1 {
			m.Header.Set(hdrBatch, id)
			m.Header.Set(hdrBatchSeq, strconv.Itoa(i+1))
			if last {
				m.Header.Set(hdrBatchCommit, "1")
			}
		}
		var err error
		if last || i%ackEvery == 0 && len(batch) > ackEvery {
			err = j.publishAndWait(ctx, m, last, len(batch) > 1)
		} else {
			err = j.nc.PublishMsg(m)
		}
		if err != nil {
			return fmt.Errorf("NATS: %w", err)
		}
	}
	return nil
}

// publishAndWait sends a message and returns the error of the answer. The answer to a message
// before the last of a batch is empty.
func (j *Journal) publishAndWait(ctx context.Context, m *nats.Msg, last, isBatch bool) error {
	wait := answerWait + time.Duration(len(m.Data)>>17)*time.Second
	if isBatch {
		wait += answerWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	r, err := j.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return err
	}
	if len(r.Data) == 0 && !last {
		return nil
	}
	var answer struct{ Error *nats.APIError }
	if err := json.Unmarshal(r.Data, &answer); err != nil || answer.Error == nil {
		return err
	}
	return answer.Error
}
