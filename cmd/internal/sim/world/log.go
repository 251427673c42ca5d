package main

// This file has the feed: a log of patches, one for each update of the data, and what the endpoint says about its position there.

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

const (
	logAddress    = "127.0.0.1:3031"
	positionQuery = "SELECT ?n { <http://sim/log> <http://sim/next> ?n }"
	logEvery      = 8 * time.Second // each time costs six requests
)

// updates are what is known of updates of the data outside of the endpoint.
type updates struct{ *world }

// feeds are the feeds of the server.
func (w updates) feeds() []feed.Definition {
	if w.Feed == nil {
		return nil
	}
	return []feed.Definition{{Name: "log", Kind: feed.RDFPatch, URL: "http://" + logAddress + "/log", Every: registry.Duration(logEvery)}}
}

// told adds to an endpoint what it says of its feed.
func (w updates) told(e *registry.Endpoint) {
	f := w.Feed
	if f == nil {
		return
	}
	e.Feed = "log"
	if f.Position {
		e.Position = positionQuery
	} else {
		e.Lag = registry.Duration(f.Lag + 10*time.Second)
	}
}

// published is the number of versions that the log has at a time.
func (w updates) published(at time.Duration) (n int) {
	for n < len(w.versions) && w.versions[n].At+w.Feed.Delay <= at {
		n++
	}
	return n
}

// within reports whether a time is in one of some windows.
func within(list []plan.Window, at time.Duration) bool {
	for _, x := range list {
		if x.Holds(at) {
			return true
		}
	}
	return false
}

// position answers up to which version the data of the endpoint include the log.
func (e *endpoint) position() []byte {
	w, at := e.w, e.w.now()
	next := 1
	for next <= len(w.versions) && w.versions[next-1].At <= w.Shown(at) {
		next++
	}
	value := term{"type": "literal", "value": strconv.Itoa(next), "datatype": integer}
	if within(w.Feed.Lies, at) {
		switch e.rand.IntN(3) {
		case 0:
			value["value"] = strconv.Itoa(max(1, next-e.rand.IntN(10)))
		case 1:
			value = term{"type": "literal", "value": "unknown"}
		default:
			return result([]string{"n"}, []map[string]term{})
		}
	}
	return result([]string{"n"}, []map[string]term{{"n": value}})
}

// serveLog serves the patches.
func (w updates) serveLog() {
	serve(logAddress, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		f, at := w.Feed, w.now()
		if within(f.Away, at) {
			switch f.Trouble {
			case plan.Hangs:
				<-r.Context().Done()
				return
			case plan.Resets:
				panic(http.ErrAbortHandler)
			case plan.Lost:
				fmt.Fprint(rw, "H id <urn:sim:")
				return
			}
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if f.Slow > 0 {
			time.Sleep(f.Slow)
		}
		n, err := strconv.Atoi(r.FormValue("version"))
		if err != nil || n < 1 || n > w.published(w.now()) || w.versions[n-1].Lost {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/rdf-patch")
		fmt.Fprint(rw, w.patch(n))
	}))
}

// patch is the text of a version.
func (w updates) patch(n int) string {
	v := w.versions[n-1]
	var b strings.Builder
	fmt.Fprintf(&b, "H id <urn:sim:%d> .\n", n)
	if n > 1 {
		fmt.Fprintf(&b, "H prev <urn:sim:%d> .\n", n-1)
	}
	b.WriteString("TX .\n")
	row := func(letter string, list, others []int) {
		for _, x := range list {
			if !contains(others, x) {
				fmt.Fprintf(&b, "%s <%s> <%s> \"%d\" .\n", letter, entity(v.Query), holds, x)
			}
		}
	}
	row("D", v.Before, v.Rows)
	row("A", v.Rows, v.Before)
	b.WriteString("TC .\n")
	return b.String()
}

func contains(list []int, n int) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}

// readProofs reads which results the server says to be true, and up to which version.
func (w updates) readProofs(ctx context.Context) {
	for w.until(ctx, w.now()+5*time.Second) && w.now() < w.Span+time.Minute {
		w.readProof(ctx, false)
	}
}

// readProof reads what is proved about the queries. At the end it writes also of which nothing is.
func (w updates) readProof(ctx context.Context, end bool) {
	var page struct {
		Queries []struct {
			Name       string      `json:"name"`
			Epoch      string      `json:"epoch"`
			Seq        uint64      `json:"seq"`
			Proved     *feed.Proof `json:"proved"`
			Unprovable string      `json:"unprovable"`
		} `json:"queries"`
	}
	if _, err := w.call(ctx, http.MethodGet, "/v1/queries?limit=100", nil, &page); err != nil {
		return
	}
	for _, is := range page.Queries {
		q, err := strconv.Atoi(strings.TrimPrefix(is.Name, "q"))
		if err != nil {
			continue
		}
		switch p := is.Proved; {
		case p != nil:
			w.write(plan.Event{Kind: plan.Proved, Query: q, Epoch: is.Epoch, Seq: is.Seq, N: int(p.Position.Offset)})
		case end:
			w.write(plan.Event{Kind: plan.Unproved, Query: q, Epoch: is.Epoch, Seq: is.Seq, Text: is.Unprovable})
		}
	}
}
