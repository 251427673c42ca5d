package trial

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A fact holds everything that was ever true of one question. Its k-th version must be position k
// of the change log.
type fact struct {
	question
	shape
	id       string // query id at the server
	epoch    string // from its registration
	final    uint64 // the server's position at the end
	versions []edition
	body     [sha256.Size]byte // of the last answer
	blank    bool              // some version has blank nodes
}

type edition struct {
	revision int // changesets applied when it was first seen
	rows     []string
}

// An oracle sends the questions directly to the endpoint.
type oracle struct {
	url      string
	facts    []*fact
	client   *http.Client
	asked    atomic.Int64
	known    sync.Map // row → itself: versions share their rows
	slowness []time.Duration
}

func newOracle(endpoint string, questions []question) *oracle {
	o := &oracle{url: endpoint, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: oracleWorkers}},
		slowness: make([]time.Duration, len(questions))}
	for _, q := range questions {
		o.facts = append(o.facts, &fact{question: q, shape: shapeOf(q)})
	}
	return o
}

const oracleWorkers = 2

// look executes every question now.
func (o *oracle) look(ctx context.Context, revision int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range oracleWorkers {
		workers.Go(func() {
			for n := range next {
				if err := o.ask(ctx, n, revision); err != nil {
					cancel(fmt.Errorf("%s: %w", o.facts[n].Name, err))
				}
			}
		})
	}
	for n := range o.facts {
		if ctx.Err() != nil {
			break
		}
		next <- n
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

func (o *oracle) ask(ctx context.Context, n, revision int) error {
	f := o.facts[n]
	accept := "application/sparql-results+json"
	if f.graph() {
		accept = "application/n-triples"
	}
	started := time.Now()
	body, err := ask(ctx, o.client, o.url, url.Values{"query": {f.Text}}, accept)
	if err != nil {
		return err
	}
	o.slowness[n] = time.Since(started)
	o.asked.Add(1)
	sum := sha256.Sum256(body)
	if len(f.versions) > 0 && sum == f.body {
		return nil
	}
	f.body = sum
	a, err := f.read(body)
	if err != nil {
		return err
	}
	f.blank = f.blank || a.blank
	if len(f.versions) > 0 && slices.Equal(a.rows, f.versions[len(f.versions)-1].rows) {
		return nil
	}
	for i, row := range a.rows {
		same, _ := o.known.LoadOrStore(row, row)
		a.rows[i] = same.(string)
	}
	f.versions = append(f.versions, edition{revision, a.rows})
	return nil
}

// dropSlow removes the questions that took too long in the last look.
func (o *oracle) dropSlow(limit time.Duration) (dropped []string) {
	kept := o.facts[:0]
	for n, f := range o.facts {
		if o.slowness[n] > limit {
			dropped = append(dropped, f.Name)
		} else {
			kept = append(kept, f)
		}
	}
	o.facts = kept
	return dropped
}

// changes returns the number of true changes of all questions.
func (o *oracle) changes() (n int) {
	for _, f := range o.facts {
		n += len(f.versions) - 1
	}
	return n
}
