package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry/feed"
)

// The commands say how a feed is doing, and read it from here.
func TestFeedCommands(t *testing.T) {
	log := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Key") != "hush":
			http.Error(w, "who are you?", http.StatusForbidden)
		case r.URL.Query().Get("version") == "1":
			fmt.Fprint(w, "H id <uuid:1> .\nTX .\nA <http://x/s> <http://x/p> \"1\" .\nTC .\n")
		default:
			http.NotFound(w, r)
		}
	}))
	defer log.Close()
	status := feed.Status{
		Definition: feed.Definition{Name: "log", Kind: feed.RDFPatch, URL: log.URL, Headers: map[string]string{"X-Key": "(set)"}},
		State:      feed.Failing, Error: "404 Not Found: check url\x1b[2J",
		Position: feed.Place{Offset: 7, Time: time.Unix(0, 0)}, Events: 7, Matched: 3,
		Endpoints: []string{"city"}, EndpointLags: map[string]float64{"city": 12},
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = status
		switch r.URL.Path {
		case "/v1/feeds/stream":
			answer = feed.Status{Definition: feed.Definition{Name: "stream", Kind: feed.Wikimedia}, Position: status.Position, LagSeconds: new(1.5)}
		case "/v1/feeds":
			answer = map[string]any{"feeds": []feed.Status{status}}
		}
		json.NewEncoder(w).Encode(answer)
	}))
	defer api.Close()
	for _, x := range []struct {
		args string
		code int
		want []string
	}{
		{"feed list", cli.ExitOK, []string{"failing", "404 Not Found: check url·[2J"}},
		{"feed show log", cli.ExitOK, []string{"log (rdf-patch): failing: 404 Not Found: check url·[2J", "7, which matched 3 queries",
			"half of the events show at city within 12s", "7 read at 1970-01-01"}},
		{"feed show stream", cli.ExitOK, []string{"7 published at 1970-01-01", "lag          1.5s from publication"}},
		{"feed check log --for 100ms", cli.ExitUsage, []string{"sends the header X-Key", "--header 'X-Key: VALUE'"}},
		{"feed check log --for 300ms --header X-Key:hush", cli.ExitOK, []string{"log: 0 events"}},
		{"feed check log --for 300ms --header X-Key:other", cli.ExitFailure, []string{"403 Forbidden", "check url and contact"}},
		{"feed check log --header X-Key", cli.ExitUsage, []string{"NAME: VALUE"}},
		{"feed follow log --header X-Key:other", cli.ExitFailure, []string{"403 Forbidden"}},
	} {
		code, out, stderr := runCLI(t, nil, "", append(strings.Fields(x.args), "--server", api.URL)...)
		for _, want := range x.want {
			if code != x.code || !strings.Contains(out+stderr, want) {
				t.Errorf("%s: exit code %d, %s%s, want %q", x.args, code, out, stderr, want)
			}
		}
	}
}

// A feed is followed until an interrupt. A check that is interrupted says what it has read, and fails.
func TestFeedsAreReadUntilAnInterrupt(t *testing.T) {
	asked := make(chan struct{}, 100)
	log := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer log.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(feed.Status{Definition: feed.Definition{Name: "log", Kind: feed.RDFPatch, URL: log.URL}})
	}))
	defer api.Close()
	for line, want := range map[string]int{"feed follow log": cli.ExitOK, "feed check log --for 1h": cli.ExitFailure} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		var out, said strings.Builder
		code := runLine(ctx, append(strings.Fields(line), "--server", api.URL), &cli.Env{Stdin: strings.NewReader(""), Stdout: &out,
			Stderr: &said, Getenv: func(string) string { return "" }})
		if code != want || (want == cli.ExitFailure) != strings.Contains(said.String(), "before it was finished") ||
			(want == cli.ExitFailure) != strings.Contains(out.String(), "0 events") {
			t.Errorf("%s, interrupted: exit code %d, want %d; prints %q, says %q", line, code, want, out.String(), said.String())
		}
	}
}

// What a feed names does not control the terminal.
func TestEventsOfHostileFeeds(t *testing.T) {
	var out strings.Builder
	a := &remote{w: &cli.Env{Stdout: &out}}
	e := feed.Event{Place: feed.Place{Topic: "\x1b[1mt"}, Entity: "http://x/\x1b[2m", Edit: feed.Edit{Text: "patch \x1b[3m\u202e"}}
	if err := a.printEvent(&e, feed.Wikimedia); err != nil || out.String() != "of ·[1mt  http://x/·[2m  +0 −0  patch ·[3m·\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	r := feedReading{Gap: "\x1b[4m", Error: "\x1b[5m"}
	if got := r.String(); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
