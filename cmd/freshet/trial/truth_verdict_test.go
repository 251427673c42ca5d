package trial

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// finish lets all followers receive the rest.
func (r *truthRun) finish(ctx context.Context) {
	for _, f := range r.oracle.facts {
		var q struct {
			Seq, Changes, Executions uint64
			Epoch, State             string
		}
		r.must(r.server.get(ctx, "/v1/queries/"+f.id, &q))
		f.final = q.Seq
		if n := uint64(len(f.versions)); q.Seq != n || q.Changes != n-1 {
			r.object("%s: at %d with %d changes, but %d versions were true (revisions %v)\n%s", f.Name, q.Seq, q.Changes, n, revisions(f), f.Text)
		}
		if least := uint64(len(r.spans)); q.Executions < least || r.kills == 0 && q.Executions > least || q.State != "live" {
			r.object("%s: %s, %d executions instead of %d", f.Name, q.State, q.Executions, least)
		}
	}
	close(r.audience.over)
	received := make(chan struct{})
	go func() {
		r.audience.members.Wait()
		close(received)
	}()
	select {
	case <-received:
	case <-time.After(2 * time.Minute):
		r.object("some followers have not received everything after 2 minutes")
	}
}

func revisions(f *fact) (list []int) {
	for _, v := range f.versions {
		list = append(list, v.revision)
	}
	return list
}

func (r *truthRun) verify(ctx context.Context) {
	j := &judge{spans: r.spans, nets: map[netKey]netChange{}}
	a := r.audience
	for _, w := range a.wrong {
		r.object("%s", w)
	}
	byFact := map[*fact][]*transcript{}
	covered := map[*fact]map[string]bool{}
	resumed, repeats := 0, 0
	for _, s := range a.transcripts {
		byFact[s.fact] = append(byFact[s.fact], s)
		if covered[s.fact] == nil {
			covered[s.fact] = map[string]bool{}
		}
		if len(s.records) > 0 && s.records[0].kind == "delta" { // the baseline
			kind, _, _ := strings.Cut(s.by, " ")
			covered[s.fact][kind] = true
		}
		resumed += s.resumed
		repeats += s.repeats
	}
	hashes := map[*fact]map[uint64]string{}
	for _, f := range r.oracle.facts {
		final, err := r.server.results(ctx, f)
		r.must(err)
		if err := isVersion(f, final, uint64(len(f.versions))); err != nil {
			r.object("%s: %v", f.Name, err)
		}
		log, err := r.server.log(ctx, f)
		r.must(err)
		hashes[f] = map[uint64]string{}
		for _, s := range append(byFact[f], log) {
			if err := j.judge(s, final, hashes[f]); err != nil {
				r.object("%s by %s: %v\n%s", f.Name, s.by, err, f.Text)
			}
		}
		if !covered[f]["ws"] || !covered[f]["sse"] {
			r.object("%s was not followed from the beginning by both WebSocket and SSE: %v", f.Name, covered[f])
		}
	}
	for _, c := range r.clients {
		if err := c.verify(hashes[c.fact]); err != nil {
			r.object("%s by the reference client: %v", c.fact.Name, err)
		}
	}
	if repeats > 0 {
		r.object("%d changes came again to who had said to have them", repeats)
	}
	if a.cuts.Load() == 0 || resumed == 0 || j.folded == 0 && len(r.history.steps) >= 30 {
		r.object("nothing was tried: %d cuts, %d resumed, %d folded", a.cuts.Load(), resumed, j.folded)
	}
	if more := r.objections - maxObjections; more > 0 {
		r.t.Logf("and %d more", more)
	}
	r.t.Logf("seed %d: %d queries, %d revisions, %d direct executions, %d true changes, %d slots, %d kills",
		r.seed, len(r.oracle.facts), len(r.spans), r.oracle.asked.Load(), r.oracle.changes(), r.spans[len(r.spans)-1].last, r.server.kills)
	r.t.Logf("%d transcripts: %d changes judged (%d of them folded, %d cancelled out), %d cuts by the client, %d failed "+
		"connects, %d subscriptions resumed",
		len(a.transcripts), j.deltas, j.folded, j.moved, a.cuts.Load(), a.failed.Load(), resumed)
}

func (r *truthRun) tearDown() {
	for _, g := range r.gateways {
		if err := g.p.Stop(); err != nil || r.t.Failed() {
			r.t.Errorf("the gateway %s ended with %v\n%s", g.addr, err, g.p.Stderr)
		}
	}
	if err := r.server.p.Stop(); err != nil {
		r.t.Errorf("the server ended with %v\n%s", err, r.serverSays())
	}
	if said := r.serverSays(); strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic") {
		r.t.Error(said)
	}
	checkStore(r.t, r.server.bin, r.server.data)
}

func command(t testing.TB, bin string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(bin, args...).CombinedOutput()
	return string(out), err
}
