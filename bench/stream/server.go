package stream

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Faults says what a Server does to its messages.
type Faults struct {
	Drop, Double float64       // share of the messages that a connection leaves out, or sends twice
	Cut          time.Duration // after which a connection ends, 0: never
	Disorder     time.Duration // how much older an edit may be than its message
	Canary       int           // messages after which a canary comes, 0: never
	Other        float64       // share of the messages that the topic of the other data centre has too
	// Deaf is the share of the connections that begin at the newest message, wherever they are to begin, and bring
	// only the other data centre's messages at first.
	Deaf float64
}

// The topics of the two data centres.
const (
	Topic = "eqiad.rdf-streaming-updater.mutation-main"
	other = "codfw.rdf-streaming-updater.mutation-main"
)

// A Server sends the messages of a stream. It is an http.Handler.
type Server struct {
	faults Faults
	mu     sync.Mutex
	rng    *rand.Rand
	log    []Message // what is kept, of both topics
	first  int       // number of the first message that is kept
	next   int64     // offset
	others int64
	change chan struct{} // closed when the log grows or connections are to end
	closed int           // connections up to this number are to end
	opened int
	refuse time.Time // until then
	sent   int
}

// Kept is how many messages a Server keeps.
const Kept = 20_000

// NewServer returns a server without messages.
func NewServer(seed uint64, f Faults) *Server {
	return &Server{faults: f, rng: rand.New(rand.NewPCG(seed, 28)), next: 1, others: 1, change: make(chan struct{})}
}

// Publish appends a change at a time and returns its place: the offset of its last message.
func (s *Server) Publish(c *Change, at time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	edited := at
	if d := int64(s.faults.Disorder); d > 0 {
		edited = at.Add(-time.Duration(s.rng.Int64N(d)))
	}
	list := c.messages(Topic, s.next, at, edited)
	s.next += int64(len(list))
	last := s.next - 1
	if s.rng.Float64() < s.faults.Other {
		same := c.messages(other, s.others, at, edited)
		s.others += int64(len(same))
		list = append(list, same...)
	}
	if n := s.faults.Canary; n > 0 && last%int64(n) == 0 {
		list = append(list, s.canary(at))
	}
	s.append(list)
	return last
}

// Canary publishes a message that only shows that the stream works, and returns its offset.
func (s *Server) Canary(at time.Time) (last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append([]Message{s.canary(at)})
	return s.next - 1
}

func (s *Server) canary(at time.Time) Message {
	m := (&Change{Operation: "diff"}).messages(Topic, s.next, at, at)[0]
	m.Data = []byte(strings.Replace(string(m.Data), `"www.wikidata.org"`, `"canary"`, 1))
	s.next++
	return m
}

func (s *Server) append(list []Message) {
	s.log = append(s.log, list...)
	if len(s.log) > 2*Kept {
		s.first += len(s.log) - Kept
		s.log = append([]Message(nil), s.log[len(s.log)-Kept:]...)
	}
	s.wake()
}

func (s *Server) wake() {
	close(s.change)
	s.change = make(chan struct{})
}

// Forget ends all connections, refuses others for a while, and keeps no message from before.
func (s *Server) Forget(refuse time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first += len(s.log)
	s.log, s.closed, s.refuse = nil, s.opened, time.Now().Add(refuse)
	s.wake()
}

// Sent returns the number of connections and of messages that were sent, repeated ones too.
func (s *Server) Sent() (connections, messages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened, s.sent
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var from []struct {
		Topic  string `json:"topic"`
		Offset int64  `json:"offset"`
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		if err := json.Unmarshal([]byte(id), &from); err != nil {
			http.Error(w, "Last-Event-ID is no JSON", http.StatusBadRequest)
			return
		}
	}
	s.mu.Lock()
	if time.Now().Before(s.refuse) {
		s.mu.Unlock()
		w.Header().Set("Retry-After", "1")
		http.Error(w, "later", http.StatusServiceUnavailable)
		return
	}
	s.opened++
	number := s.opened
	after := map[string]int64{Topic: s.next, other: s.others}
	deaf := len(from) > 0 && s.rng.Float64() < s.faults.Deaf
	s.mu.Unlock()
	if deaf {
		from, after[Topic] = nil, after[Topic]+quiet
	}
	for _, f := range from {
		after[f.Topic] = f.Offset
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	if flush.Flush() != nil {
		return
	}
	end := r.Context().Done()
	var cut <-chan time.Time
	if s.faults.Cut > 0 {
		timer := time.NewTimer(s.faults.Cut)
		defer timer.Stop()
		cut = timer.C
	}
	for read := 0; ; {
		var list []string
		var change chan struct{}
		var over bool
		list, read, change, over = s.after(after, read, number)
		for _, text := range list {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
		if flush.Flush() != nil || over {
			return
		}
		select {
		case <-end:
			return
		case <-cut:
			return
		case <-change:
		}
	}
}

// quiet is how many messages of its topic a deaf connection leaves out.
const quiet = 20

const sent = `event: message
id: [{"topic":%q,"partition":0,"offset":%d},{"topic":%q,"partition":0,"offset":%d}]
data: %s

`

// after returns the messages to send next, with the faults of a connection that has read so many.
func (s *Server) after(after map[string]int64, read, number int) (list []string, all int, change chan struct{}, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.log[max(read-s.first, 0):] {
		if m.Offset < after[m.Topic] {
			continue
		}
		after[m.Topic] = m.Offset + 1
		if s.rng.Float64() < s.faults.Drop {
			continue
		}
		text := fmt.Sprintf(sent, Topic, after[Topic], other, after[other], m.Data)
		list = append(list, text)
		if s.rng.Float64() < s.faults.Double {
			list = append(list, text)
		}
	}
	s.sent += len(list)
	return list, s.first + len(s.log), s.change, number <= s.closed
}
