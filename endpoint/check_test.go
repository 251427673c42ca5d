package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// checked runs a check and returns the details of what is not in order, and
// the proposed settings.
func checked(t *testing.T, e registry.Endpoint) (r registry.Report, bad map[string]string, settings map[string]any) {
	t.Helper()
	e.Name = "checked"
	r, err := Check(t.Context(), e, Options{Contact: "mailto:test@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests > MaxCheckRequests {
		t.Errorf("%d requests", r.Requests)
	}
	bad, settings = map[string]string{}, map[string]any{}
	for _, f := range r.Findings {
		if !f.OK {
			bad[f.Topic] = f.Detail
		}
	}
	for _, s := range r.Settings {
		settings[s.Name] = s.Value
	}
	return r, bad, settings
}

func TestCheckEmbedded(t *testing.T) {
	_, addr := embedded(t)
	at, err := url.Parse(addr)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		requests.Add(1)
		r.SetURL(at)
		r.Out.URL.Path = at.Path
	}})
	t.Cleanup(s.Close)
	r, bad, settings := checked(t, registry.Endpoint{URL: s.URL + "/sparql"})
	delete(bad, "conditional requests")
	delete(settings, "budget") // of a machine that stops
	if !r.Answers || len(bad) > 0 || len(settings) > 0 || r.Requests != int(requests.Load()) || r.Requests < 15 {
		t.Errorf("%d of %d requests, bad: %v, settings: %v", r.Requests, requests.Load(), bad, settings)
	}
}

// A faulty endpoint is described, not asked on and on.
func TestCheckFaults(t *testing.T) {
	answer := func(status int, typ, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", typ)
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	const yes = `{"head":{},"boolean":true}`
	var requests atomic.Int64
	for name, x := range map[string]struct {
		h             http.HandlerFunc
		answers       bool
		topic, detail string
		most          int64
	}{
		"web page":     {answer(200, "text/html", "<html>hello"), false, "answers SPARQL", "html", 1},
		"no such page": {answer(404, "text/plain", "nothing"), false, "answers SPARQL", "no endpoint at this URL", 1},
		"broken":       {answer(500, "text/plain", "broken"), false, "answers SPARQL", "500", 1},
		"busy":         {answer(503, "text/plain", "later", "Retry-After", "60"), false, "goes on answering", "503", 1},
		"locked":       {answer(401, "text/plain", "who"), false, "answers SPARQL", "credentials", 1},
		"hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, "answers SPARQL",
			"closed the connection", 1},
		"throttles": {func(w http.ResponseWriter, r *http.Request) {
			if requests.Load() > 4 {
				answer(429, "text/plain", "enough")(w, r)
				return
			}
			answer(200, typeJSON, yes)(w, r)
		}, true, "goes on answering", "429", 5},
		"always true": {answer(200, typeJSON, yes), true, "results in XML", "", 20},
		"dies": {func(w http.ResponseWriter, r *http.Request) {
			if requests.Load() > 4 {
				panic(http.ErrAbortHandler)
			}
			answer(200, typeJSON, yes)(w, r)
		}, true, "goes on answering", "closed the connection", 14},
	} {
		t.Run(name, func(t *testing.T) {
			requests.Store(0)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				x.h(w, r)
			}))
			defer s.Close()
			r, bad, _ := checked(t, registry.Endpoint{URL: s.URL})
			detail, ok := bad[x.topic]
			if r.Answers != x.answers || !ok || !strings.Contains(detail, x.detail) || requests.Load() > x.most || !x.answers &&
				len(r.Settings) > 0 {
				t.Errorf("answers %v, %d requests, %v", r.Answers, requests.Load(), bad)
			}
		})
	}
	if _, err := Check(t.Context(), registry.Endpoint{Name: "public", URL: "https://sparql.example.org/"},
		Options{}); !errors.Is(err, ErrNoContact) {
		t.Errorf("without a contact: %v", err)
	}
}

// Requests of Check to a public host are a gap apart, also after a redirect, and end with the context.
func TestCheckGap(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, host := range []string{"127.0.0.1", "sparql.example.org"} {
			var at []time.Time
			p := &pacedTransport{next: roundTripper(func(*http.Request) (*http.Response, error) {
				at = append(at, time.Now())
				return &http.Response{}, nil
			})}
			for _, to := range []string{"http://127.0.0.1/", "http://127.0.0.1/", "http://" + host + "/"} {
				if _, err := p.RoundTrip(httptest.NewRequest(http.MethodGet, to, nil)); err != nil {
					t.Fatal(err)
				}
			}
			want := CheckGap
			if host == "127.0.0.1" {
				want = 0
			}
			if first, last := at[1].Sub(at[0]), at[2].Sub(at[1]); first != 0 || last != want {
				t.Errorf("%s: gaps of %s and %s", host, first, last)
			}
			ctx, cancel := context.WithTimeout(t.Context(), CheckGap/2)
			_, err := p.RoundTrip(httptest.NewRequest(http.MethodGet, "https://sparql.example.org/", nil).WithContext(ctx))
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: a request of a check that ended: %v", host, err)
			}
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A row cap that is not reported is found by counting.
func TestCheckFindsCap(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.FormValue("query")
		w.Header().Set("Content-Type", typeJSON)
		switch {
		case strings.Contains(q, "COUNT(*)"):
			fmt.Fprint(w, `{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"10001"}}]}}`)
		case strings.HasPrefix(q, "ASK"):
			fmt.Fprint(w, `{"head":{},"boolean":true}`)
		default:
			_, column, _ := strings.Cut(q, "SELECT ?")
			column, _, _ = strings.Cut(column, " ")
			fmt.Fprint(w, strings.ReplaceAll(rows(50), `"x"`, `"`+column+`"`))
		}
	}))
	defer s.Close()
	if _, bad, settings := checked(t, registry.Endpoint{URL: s.URL}); settings["max_rows"] != 50 ||
		!strings.Contains(bad["no row cap"], "50 of 10001") {
		t.Errorf("%v %v", bad, settings)
	}
}

// An answer without columns is no number.
func TestCheckWithoutColumns(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		if strings.HasPrefix(r.FormValue("query"), "ASK") {
			fmt.Fprint(w, `{"head":{},"boolean":true}`)
			return
		}
		fmt.Fprint(w, `{"head":{"vars":[]},"results":{"bindings":[{}]}}`)
	}))
	defer s.Close()
	if _, bad, _ := checked(t, registry.Endpoint{URL: s.URL}); !strings.Contains(bad["no row cap"], "not known") {
		t.Errorf("%v", bad)
	}
}

// An endpoint that does not answer a request for several queries, or ignores its VALUES
// block, should be asked for each query alone.
func TestCheckProposesMergeOff(t *testing.T) {
	const none = `{"head":{"vars":["i","p"]},"results":{"bindings":[]}}`
	for name, x := range map[string]struct {
		status int
		body   string
		want   any
	}{
		"answers": {200, none, nil}, "refuses": {400, "no VALUES here", registry.MergeOff},
		"ignores": {200, rows(3), registry.MergeOff}, "fails": {500, "broken", registry.MergeOff},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", typeJSON)
				if q := r.FormValue("query"); strings.HasPrefix(q, "SELECT ?i ") {
					w.WriteHeader(x.status)
					fmt.Fprint(w, x.body)
					return
				}
				fmt.Fprint(w, `{"head":{},"boolean":true}`)
			}))
			defer s.Close()
			if _, bad, settings := checked(t, registry.Endpoint{URL: s.URL}); settings["merge"] != x.want {
				t.Errorf("proposes merge=%v: %v", settings["merge"], bad[mergedRequests])
			}
		})
	}
}

// A redirect is a request too. A check reports it and goes on at the new address.
func TestCheckRedirects(t *testing.T) {
	requests, redirects := 0, 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; r.URL.Path != "/new/sparql" {
			redirects++
			http.Redirect(w, r, "/new/sparql?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", typeJSON)
		fmt.Fprint(w, `{"head":{},"boolean":true}`)
	}))
	defer s.Close()
	r, bad, _ := checked(t, registry.Endpoint{URL: s.URL + "/sparql"})
	s.Close()
	if want := s.URL + "/new/sparql"; r.URL != want || !strings.Contains(bad["answers without redirects"], want) {
		t.Errorf("the report is about %s, %v", r.URL, bad)
	}
	if requests > MaxCheckRequests || r.Requests != requests || redirects != 1 {
		t.Errorf("%d requests with %d redirects, reported as %d", requests, redirects, r.Requests)
	}
}

// An endpoint that redirects each request to another address gets no more of them.
func TestCheckRedirectsForEver(t *testing.T) {
	var at []time.Time
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at = append(at, time.Now()); len(at)%3 != 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d?%s", len(at), r.URL.RawQuery), http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", typeJSON)
		fmt.Fprint(w, `{"head":{},"boolean":true}`)
	}))
	defer s.Close()
	e := registry.Endpoint{URL: s.URL, MinGap: registry.Duration(40 * time.Millisecond)}
	r, bad, _ := checked(t, e)
	s.Close()
	if len(at) != MaxCheckRequests || r.Requests != len(at) || !strings.Contains(bad["goes on answering"], "20 requests") {
		t.Errorf("%d requests, reported as %d, %v", len(at), r.Requests, bad)
	}
	// A request can arrive late, so the time between two of them says nothing. All together take the gaps.
	if took, want := at[len(at)-1].Sub(at[0]), time.Duration(len(at)-1)*time.Duration(e.MinGap); took < want/2 {
		t.Errorf("%d requests came in %s, want about %s", len(at), took, want)
	}
}
