package endpoint

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/endpoint/loopbacktest"
	"github.com/freshet/freshet/registry"
)

func TestStatus(t *testing.T) {
	const estimate = "Virtuoso 42000 Error The estimated execution time 2013 (sec) exceeds the limit of 400 (sec).\n\nSPARQL query:\nSELECT"
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   registry.Outcome
		says   string
		down   bool
	}{
		{"syntax", 400, "Virtuoso 37000 Error SP030: SPARQL compiler, line 1: syntax error\n\nSPARQL query:\nx", registry.Rejected,
			"400 the endpoint refuses this query: Virtuoso 37000 Error SP030: SPARQL compiler, line 1: syntax error", false},
		{"too long", 414, "", registry.Rejected, "414", false},
		{"unauthorized", 401, "who?", registry.Failed, "credentials", true},
		{"forbidden", 403, "", registry.Failed, "credentials", true},
		{"not found", 404, "", registry.Failed, "no endpoint at this URL", true},
		{"gone", 410, "", registry.Failed, "no endpoint at this URL", true},
		{"method", 405, "", registry.Failed, "405", false},
		{"too many", 429, "slow down", registry.Throttled, "slow down", false},
		{"unavailable", 503, "", registry.Throttled, "wait", false},
		{"bad gateway", 502, "<html><head><title>502</title></head><body><p>upstream &amp; away</p></body></html>", registry.Failed,
			"upstream & away", true},
		{"gateway timeout", 504, "", registry.Timeout, "time", true},
		{"plain 500", 500, "java.lang.NullPointerException\n\tat x", registry.Failed,
			"500 the endpoint failed: java.lang.NullPointerException", true},
		{"Virtuoso's estimate", 500, estimate, registry.Rejected, "estimated execution time", false},
		{"Virtuoso's time limit", 500, "Virtuoso S1T00 Error SR171: Transaction timed out", registry.Timeout, "SR171", false},
		{"Virtuoso's sort limit", 500, "Virtuoso 22023 Error SR353: Sorted TOP clause specifies more then 20010 rows to sort.",
			registry.Rejected, "SR353", false},
		{"Virtuoso's rights", 500, "Virtuoso 42000 Error SR186: No permission to execute procedure", registry.Failed, "SR186", true},
		{"Virtuoso's trouble", 500, "Virtuoso 40001 Error SR172: Transaction deadlocked", registry.Failed, "SR172", true},
		{"accepted", 202, "", registry.Failed, "202", false},
		{"no content", 204, "", registry.Failed, "204", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := client(t, serve(t, send(c.status, "text/plain", c.body)), nil)
			want(t, execute(t, cl, sel("S")), c.want, c.says)
			if h := cl.Health(); (h.Failures > 0) != (c.down || c.want == registry.Throttled) {
				t.Errorf("health %+v", h)
			}
		})
	}
}

func TestErrorTextIsFitToShow(t *testing.T) {
	body := "\n \x00\x1b[31m  first\tline \u202e" + strings.Repeat("ü", 1000) + "\xff\nsecond"
	a := execute(t, client(t, serve(t, send(400, "text/plain", body)), nil), sel("S"))
	want(t, a, registry.Rejected, "[31m first line")
	if n := len([]rune(a.Error)); n > formats.MaxText {
		t.Errorf("%d characters", n)
	}
	if strings.ContainsFunc(a.Error, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
		t.Errorf("%q", a.Error)
	}
	if strings.Contains(a.Error, "second") {
		t.Errorf("%q has more than the first line", a.Error)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"30", "", 30 * time.Second},
		{"99999999999999999999", "", longestWait},
		{"0", "", time.Second},
		{"-5", "", time.Second},
		{"99999999999", "", longestWait},
		{"Fri, 20 Nov 2026 09:01:00 GMT", "", time.Minute},
		{"Fri, 20 Nov 2026 09:01:00 GMT", "Fri, 20 Nov 2026 09:00:30 GMT", 30 * time.Second},
		{"Fri, 20 Nov 2026 08:00:00 GMT", "", time.Second},
		{"soon", "", 0},
		{"", "", 0},
	} {
		h := http.Header{"Retry-After": {c.value}, "Date": {c.date}}
		if got := RetryAfter(h, now); got != c.want {
			t.Errorf("Retry-After %q with Date %q: %v, want %v", c.value, c.date, got, c.want)
		}
	}
}

func TestNoConnection(t *testing.T) {
	closed := "http://" + loopbacktest.Reserve(t)
	c := client(t, closed+"/secret-path", nil)
	a := execute(t, c, sel("SELECT secret"))
	want(t, a, registry.Failed, "connection refused")
	if strings.Contains(a.Error, "secret") {
		t.Errorf("%q repeats the request", a.Error)
	}
	if c.Health().Failures != 1 {
		t.Errorf("health %+v", c.Health())
	}
	want(t, execute(t, client(t, serveRaw(t, ""), nil), sel("S")), registry.Failed, "closed the connection without an answer")
	a = execute(t, client(t, serveRaw(t, "SSH-2.0-OpenSSH\r\n"), nil), sel("SELECT secret"))
	want(t, a, registry.Failed, "request to the endpoint failed")
	if strings.Contains(a.Error, "secret") {
		t.Errorf("%q repeats the request", a.Error)
	}
}

func TestRedirects(t *testing.T) {
	answers := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("credentials reached another host")
		}
		send(200, typeJSON, rows(1))(w, r)
	})
	target := ""
	var addr string
	visits := 0
	addr = serve(t, func(w http.ResponseWriter, r *http.Request) {
		visits++
		if r.URL.Path == "/there" {
			if _, p, _ := r.BasicAuth(); p != "p" || r.FormValue("query") == "" {
				t.Errorf("password %q, query %q", p, r.FormValue("query"))
			}
			send(200, typeJSON, rows(1))(w, r)
			return
		}
		code := http.StatusFound
		if r.URL.Path == "/keep" {
			code = http.StatusPermanentRedirect
		}
		http.Redirect(w, r, target+"?"+r.URL.RawQuery, code)
	})
	to := func(path string) *Client {
		return client(t, addr+path, func(e *registry.Endpoint, o *Options) {
			e.Auth.Basic = &registry.Password{Username: "u", Password: "p"}
		})
	}
	post := sel(strings.Repeat("x", longestGET))
	target = answers
	want(t, execute(t, to("/"), sel("S")), registry.Failed, "redirect refused", "another host")
	want(t, execute(t, to("/keep"), post), registry.Failed, "redirect refused", "another host")
	target = addr + "/there"
	want(t, execute(t, to("/"), sel("S")), registry.Changed)
	want(t, execute(t, to("/keep"), post), registry.Changed)
	want(t, execute(t, to("/"), post), registry.Failed, "lose the query")
	target, visits = addr+"/", 0
	want(t, execute(t, to("/"), sel("S")), registry.Failed, "more than 3")
	if visits != 4 {
		t.Errorf("%d requests, want the first and 3 redirects", visits)
	}
}

func TestWhichRedirects(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"http://a/x", "http://a/y?q", true},
		{"http://a/x", "https://a/x", true},
		{"http://a/x", "http://a:81/x", false},
		{"http://a:80/x", "https://a:444/x", false},
		{"https://a/x", "http://a/x", false},
		{"http://a/x", "http://b/x", false},
		{"http://a/x", "https://b/x", false},
	} {
		from, err1 := http.NewRequest("GET", c.from, nil)
		to, err2 := http.NewRequest("GET", c.to, nil)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if err := checkRedirect(to, []*http.Request{from}); (err == nil) != c.ok {
			t.Errorf("from %s to %s: %v", c.from, c.to, err)
		}
	}
}
