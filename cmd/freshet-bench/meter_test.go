package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A meter forwards requests to an endpoint one at a time. It counts them and
// their bytes, and the processor time of the endpoint's process by query.
type meter struct {
	url                      string
	requests, sent, received atomic.Int64
	measured                 atomic.Bool // whether to add to spent
	server                   *http.Server

	mu    sync.Mutex
	spent map[string]spent // by text
}

// spent is what requests with one text took.
type spent struct {
	requests int
	seconds  float64
}

// add adds a request.
func (m *meter) add(text string, seconds float64) {
	if s := m.spent[text]; m.measured.Load() {
		m.spent[text] = spent{s.requests + 1, s.seconds + seconds}
	}
}

// forward returns a handler that measures the requests that f answers.
func (m *meter) forward(f http.Handler, pid int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		text := r.URL.Query().Get("query")
		if form, err := url.ParseQuery(string(body)); err == nil && text == "" {
			text = form.Get("query")
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		before := cpuExactly(pid)
		f.ServeHTTP(w, r)
		m.add(text, cpuExactly(pid)-before)
	}
}

func newMeter(endpoint string, pid int) (*meter, error) {
	to, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &meter{url: "http://" + l.Addr().String() + to.Path, spent: map[string]spent{}}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, to.Host
			m.requests.Add(1)
			m.sent.Add(int64(len(r.In.URL.RawQuery)) + max(0, r.In.ContentLength))
		},
		ModifyResponse: func(r *http.Response) error {
			r.Body = &countedBody{r.Body, &m.received}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	m.server = &http.Server{Handler: m.forward(p, pid)}
	go m.server.Serve(l)
	return m, nil
}

// took returns what the requests that were answered took, by text.
func (m *meter) took() map[string]spent {
	m.mu.Lock() // a request whose answer has arrived is added before it is free again
	defer m.mu.Unlock()
	return maps.Clone(m.spent)
}

func (m *meter) close() { m.server.Close() }

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// cpuExactly is the processor time of the threads of a process in seconds, 0 if it
// is not known. It is finer than cpuSeconds but lacks threads that have ended.
func cpuExactly(pid int) (seconds float64) {
	if pid == 0 {
		return 0
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, t := range threads {
		b, _ := os.ReadFile(t)
		nanos, _, _ := strings.Cut(string(b), " ")
		n, _ := strconv.ParseFloat(nanos, 64)
		seconds += n / 1e9
	}
	return seconds
}

// ticksPerSecond is the unit of /proc/PID/stat on all usual Linux systems.
const ticksPerSecond = 100

// cpuSeconds is the processor time of a process, 0 if it is not known.
func cpuSeconds(pid int) float64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / ticksPerSecond
}
