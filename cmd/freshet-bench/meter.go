package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// A meter forwards requests to an endpoint and counts them and their bytes.
type meter struct {
	url                      string
	requests, sent, received atomic.Int64
	server                   *http.Server
}

func newMeter(endpoint string) (*meter, error) {
	to, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &meter{url: "http://" + l.Addr().String() + to.Path}
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
	m.server = &http.Server{Handler: p}
	go m.server.Serve(l)
	return m, nil
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
