package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/endpoint/local/city"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// A mergeBench runs one server per way of asking and budget over the same
// dataset. After each revision, every server runs a slot, in changing order.
type mergeBench struct {
	recordingSource
	modes   []string
	budgets []time.Duration
	policy  string
	count   int // queries that are generated
	seed    uint64
	pid     int // of the endpoint's process
	// learning is how many slots without a change come first, and idle how many
	// follow each revision.
	learning, idle int

	list    []registry.Query
	askings *askings
	truth   [][]string // hashes by revision and query
}

// A mergeRun is one server with what was measured.
type mergeRun struct {
	srv    *server.Server
	meter  *meter
	ids    []string
	held   []string // hashes by query
	stop   func() error
	result mergeResult
}

// A mergeResult is one line of the table.
type mergeResult struct {
	Merge    string  `json:"merge"`
	Budget   float64 `json:"budget_seconds"`
	Slots    int     `json:"slots"`
	Asked    int     `json:"executions"` // of queries
	Requests int64   `json:"requests"`
	CPU      float64 `json:"cpu_seconds"`          // of the endpoint's process; 0 if it is not known
	Learning float64 `json:"learning_cpu_seconds"` // before the first revision
	Used     float64 `json:"used_seconds"`
	Sent     int64   `json:"bytes_sent"`
	Received int64   `json:"bytes_received"`
	Changes  int     `json:"changes"` // that happened
	Found    int     `json:"found"`
	Delay    float64 `json:"mean_delay_revisions"` // of those found
	// Askings divides the requests and their processor time.
	Askings []asking `json:"askings,omitempty"`
}

func mergeCommand(w *cli.Env) *cobra.Command {
	b := &mergeBench{}
	var asJSON, byTemplate bool
	c := &cobra.Command{
		Use: "merge", Short: "Measure what asking for several queries at once saves", Args: cobra.NoArgs,
		Long: `Registers queries that differ in constants only on one server per value of the
setting merge and per budget. Revision by revision, it applies the changesets and
runs a slot of each server, followed by --idle slots in which nothing changes. It
counts requests, bytes, the processor time of the endpoint's process, and the
changes found with their delay. The slots until every query of a server has a
result, and the --learning slots after them, are not part of the figures.

Without --queries, it makes as many queries of each of a dozen templates, about
one resource of the base each. Without --base, it generates the data of a small city.`,
		RunE: func(c *cobra.Command, _ []string) error {
			results, err := b.run(c.Context(), w)
			if err != nil {
				return err
			}
			if asJSON {
				for _, r := range results {
					if err := cli.PrintJSON(w.Stdout, r); err != nil {
						return err
					}
				}
				return nil
			}
			if err := writeMergeTable(w.Stdout, results); err != nil || !byTemplate {
				return err
			}
			return writeAskings(w.Stdout, results)
		},
	}
	b.flags(c)
	f := c.Flags()
	f.StringSliceVar(&b.modes, "merge", []string{registry.MergeOff, registry.MergeValues, registry.MergeProbe, registry.MergeAuto},
		"values of the setting merge, separated by commas")
	f.DurationSliceVar(&b.budgets, "budget", []time.Duration{10 * time.Second, 2 * time.Second},
		"execution seconds of a slot, separated by commas")
	f.StringVar(&b.policy, "policy", registry.DefaultPolicy, "refresh policy")
	f.IntVar(&b.count, "count", 1200, "how many queries to make without --queries")
	f.Uint64Var(&b.seed, "seed", 1, "seed of the queries and of a generated city")
	f.IntVar(&b.pid, "pid", 0, "process of the endpoint, whose processor time is measured")
	f.IntVar(&b.learning, "learning", 0, "slots without a change before the first revision, which are not part of the figures")
	f.IntVar(&b.idle, "idle", 0, "slots without a change after that of each revision")
	f.BoolVar(&byTemplate, "by-template", false, "print the requests and their processor time by template and kind")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line and server")
	return c
}

func (b *mergeBench) run(ctx context.Context, w *cli.Env) ([]mergeResult, error) {
	for _, m := range b.modes {
		if !slices.Contains(registry.MergeModes(), m) {
			return nil, cli.UsageErrorf("--merge: %q is not one of %s", m, strings.Join(registry.MergeModes(), ", "))
		}
	}
	if _, err := scheduler.ParsePolicy(b.policy); err != nil {
		return nil, cli.UsageErrorf("--policy: %v", err)
	}
	dir, err := os.MkdirTemp("", "freshet-merge-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := b.fill(dir); err != nil {
		return nil, err
	}
	list, steps, err := b.open(ctx, w)
	defer b.close()
	if err != nil {
		return nil, err
	}
	b.list, b.askings = list, newAskings(list)
	if err := b.load(ctx); err != nil {
		return nil, err
	}
	runs, err := b.start(ctx, w, dir)
	defer func() {
		for _, r := range runs {
			_ = r.stop() // its measurements are complete, or the error is reported already
		}
	}()
	if err != nil {
		return nil, err
	}
	bar := progress(w, len(steps)+1, "measuring")
	defer bar.Close()
	for rev := 0; rev <= len(steps); rev++ {
		if rev > 0 && steps[rev-1].Apply != nil {
			if err := steps[rev-1].Apply(ctx); err != nil {
				return nil, err
			}
		}
		if err := b.revision(ctx, rev, runs); err != nil {
			return nil, fmt.Errorf("revision %d: %w", rev, err)
		}
		bar.Add(1)
	}
	var results []mergeResult
	for _, r := range runs {
		r.result.Delay /= float64(max(1, r.result.Found))
		r.result.Askings = b.askings.sum(r.meter.took())
		results = append(results, r.result)
	}
	return results, nil
}

// fill generates what the flags do not name.
func (b *mergeBench) fill(dir string) error {
	if b.base == "" && b.changesets == "" {
		if err := city.New(b.seed).WriteDir(dir, max(b.limit, 20)); err != nil {
			return err
		}
		b.base, b.changesets, b.perChangeset = filepath.Join(dir, "base.nt.gz"), filepath.Join(dir, "changesets"), true
	}
	if b.queries != "" || b.base == "" {
		return nil
	}
	texts, err := constantQueries(b.base, b.count, rand.New(rand.NewPCG(b.seed, 0)))
	if err != nil {
		return err
	}
	list := make([]city.Query, len(texts))
	for i, t := range texts {
		list[i].Text = t
	}
	b.queries = filepath.Join(dir, "queries.jsonl")
	return writeFile(b.queries, func(w io.Writer) error { return writeQueries(w, list) })
}

// start starts the servers and registers the queries.
func (b *mergeBench) start(ctx context.Context, w *cli.Env, dir string) (runs []*mergeRun, err error) {
	admin := registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin}
	for _, budget := range b.budgets {
		for _, mode := range b.modes {
			r := &mergeRun{held: make([]string, len(b.list)), result: mergeResult{Merge: mode, Budget: budget.Seconds()}}
			if r.meter, err = newMeter(b.url, b.pid); err != nil {
				return runs, err
			}
			conf := config.Default()
			conf.Listen, conf.Data, conf.Contact = "127.0.0.1:0", filepath.Join(dir, fmt.Sprint("data", len(runs))), b.contact
			e := registry.Endpoint{Name: replayEndpoint, URL: r.meter.url, Slot: scheduler.Never, Policy: b.policy, Merge: mode,
				Budget: registry.Duration(budget), Timeout: registry.Duration(b.timeout)}
			if b.graph != "" {
				e.DefaultGraphURI = []string{b.graph}
			}
			conf.Endpoints = []registry.Endpoint{e}
			if err := conf.Check(); err != nil {
				r.meter.close()
				return runs, err
			}
			if r.srv, err = server.New(ctx, &conf, config.Log{Level: "error", Format: "auto"}.Logger(w)); err != nil {
				r.meter.close()
				return runs, err
			}
			r.run(ctx)
			runs = append(runs, r)
			for _, q := range b.list {
				got, _, err := r.srv.Registry.Register(admin, registry.Registration{Endpoint: replayEndpoint, Text: q.Text})
				if err != nil {
					return runs, fmt.Errorf("register %s: %w", q.ID, err)
				}
				r.ids = append(r.ids, got.ID)
			}
		}
	}
	return runs, nil
}

func (r *mergeRun) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- r.srv.Run(ctx) }()
	r.stop = func() error {
		cancel()
		err := <-over
		r.srv.Close()
		r.meter.close()
		return err
	}
}

// revision finds the true results, and runs the slots of each server.
func (b *mergeBench) revision(ctx context.Context, rev int, runs []*mergeRun) error {
	if err := b.examine(ctx, rev); err != nil {
		return err
	}
	for _, r := range runs {
		r.result.Changes += b.changed(rev)
	}
	if rev == 0 {
		for _, r := range runs {
			if err := b.begin(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
	for slot := range 1 + b.idle {
		for k := range runs {
			if err := b.tick(ctx, rev, runs[(k+rev+slot)%len(runs)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin runs slots of a server until every query has a result, and those in which it
// learns.
func (b *mergeBench) begin(ctx context.Context, r *mergeRun) error {
	const most = 1000
	for learnt, slot := 0, 0; slot < most && learnt <= b.learning; slot++ {
		if err := b.tick(ctx, 0, r); err != nil {
			return err
		}
		if r.result.Merge == registry.MergeOff && learnt == 0 {
			learnt = b.learning // there is nothing to learn
		}
		if !slices.Contains(r.held, "") {
			learnt++
		}
	}
	return nil
}

// examine finds the true results of a revision.
func (b *mergeBench) examine(ctx context.Context, rev int) error {
	ask, err := b.client()
	if err != nil {
		return cli.UsageErrorf("--endpoint: %v", err)
	}
	defer ask.Close()
	truth := make([]string, len(b.list))
	for i := range b.list {
		a := ask.Execute(ctx, &b.list[i], scheduler.Memory{}, b.timeout)
		if a.Outcome.Complete() && a.Result != nil {
			truth[i] = a.Result.Hash()
		} else if rev > 0 {
			truth[i] = b.truth[rev-1][i]
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	b.truth = append(b.truth, truth)
	return nil
}

// tick runs a slot of a server and measures it. Changes are compared at its end.
func (b *mergeBench) tick(ctx context.Context, rev int, r *mergeRun) error {
	before, requests, sent, received := cpuSeconds(b.pid), r.meter.requests.Load(), r.meter.sent.Load(), r.meter.received.Load()
	r.meter.measured.Store(rev > 0)
	var s scheduler.Slot
	if err := r.srv.Call(ctx, http.MethodPost, "/v1/endpoints/"+replayEndpoint+"/tick", nil, &s); err != nil {
		return err
	}
	after := cpuSeconds(b.pid)
	for i, id := range r.ids {
		st, _, err := r.srv.Store.History.Current(id, false)
		if err != nil {
			return err
		}
		b.compare(rev, r, i, st.Hash)
	}
	x := &r.result
	if rev == 0 { // the first results are not changes
		x.Learning += after - before
		return nil
	}
	x.Slots++
	x.CPU += after - before
	x.Asked += s.Run + s.OffGrid.Run
	x.Used += s.Used
	x.Requests += r.meter.requests.Load() - requests
	x.Sent += r.meter.sent.Load() - sent
	x.Received += r.meter.received.Load() - received
	return nil
}

// changed counts the changes of a revision.
func (b *mergeBench) changed(rev int) (n int) {
	for i := range b.list {
		if rev > 0 && b.truth[rev][i] != b.truth[rev-1][i] {
			n++
		}
	}
	return n
}

// compare counts a change that a server found, and its delay in revisions.
func (b *mergeBench) compare(rev int, r *mergeRun, i int, hash string) {
	was := r.held[i]
	r.held[i] = hash
	if was == "" || was == hash {
		return
	}
	r.result.Found++
	for k := rev; k > 0 && b.truth[k][i] == hash && b.truth[k-1][i] == hash; k-- {
		r.result.Delay++
	}
}

func writeMergeTable(w io.Writer, results []mergeResult) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "MERGE\tBUDGET\tSLOTS\tEXECUTIONS\tREQUESTS\tCPU\tLEARNING\tUSED\tSENT\tRECEIVED\tCHANGES\tFOUND\tDELAY\t")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%.3g s\t%d\t%d\t%d\t%.2f s\t%.2f s\t%.2f s\t%d kB\t%d kB\t%d\t%d\t%.2f\t\n", r.Merge, r.Budget, r.Slots,
			r.Asked, r.Requests, r.CPU,
			r.Learning, r.Used, r.Sent/1000, r.Received/1000, r.Changes, r.Found, r.Delay)
	}
	return t.Flush()
}

// ofIRIs matches a triple whose terms are all IRIs, in N-Triples.
var ofIRIs = regexp.MustCompile(`^(<[^<>\\ ]+>) (<[^<>\\ ]+>) (<[^<>\\ ]+>) \.$`)

// Queries about one resource each, as applications register them: $S is a resource that
// has $P, $O is one that $P leads to.
var entityTemplates = []string{
	"SELECT ?p ?o { $S ?p ?o }", "SELECT ?s ?p { ?s ?p $O }", "SELECT ?o { $S $P ?o }", "SELECT ?s { ?s $P $O }",
	"SELECT (COUNT(*) AS ?n) { ?s $P $O }",
	"SELECT ?s ?q ?v { ?s $P $O ; ?q ?v }", "SELECT ?x ?q ?v { $S $P ?x . ?x ?q ?v }", "SELECT DISTINCT ?t { ?s $P $O ; a ?t }",
	"ASK { $S $P ?o }",
	"SELECT ?l { $S $LABEL ?l FILTER ( lang(?l) = \"en\" ) }",
	"SELECT ?s ?l { ?s $P $O OPTIONAL { ?s $LABEL ?l } }",
	"SELECT ?l ?t ?o { $S $LABEL ?l OPTIONAL { $S a ?t } OPTIONAL { $S $P ?o } }",
}

const labelPredicate = "<http://www.w3.org/2004/02/skos/core#prefLabel>"

// constantQueries makes queries with constants of a dataset: as many of each template,
// about one of the most frequent predicates that have enough resources.
func constantQueries(base string, count int, r *rand.Rand) ([]string, error) {
	triples, err := readTriples(base)
	if err != nil {
		return nil, err
	}
	const rdfType = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
	links := map[string]int{}
	subjects, objects := map[string][]string{}, map[string][]string{}
	for _, t := range triples {
		if p := t[1]; p != rdfType {
			links[p]++
			subjects[p], objects[p] = append(subjects[p], t[0]), append(objects[p], t[2])
		}
	}
	// Applications ask about each resource once, however many links it has.
	for p := range links {
		subjects[p], objects[p] = distinct(subjects[p]), distinct(objects[p])
	}
	each := (count + len(entityTemplates) - 1) / len(entityTemplates)
	predicates := slices.SortedFunc(maps.Keys(links), func(p, q string) int {
		few := func(p string) int { return -min(each, len(subjects[p]), len(objects[p])) }
		return cmp.Or(few(p)-few(q), links[q]-links[p], strings.Compare(p, q))
	})
	predicates = predicates[:min(4, len(predicates))]
	if len(predicates) == 0 {
		return nil, errors.New("the base has no links between resources to make queries of: name --queries")
	}
	var texts []string
	for i, t := range entityTemplates {
		p := predicates[i%len(predicates)]
		constants := subjects[p]
		if strings.Contains(t, "$O") {
			constants = objects[p]
		}
		for _, k := range r.Perm(len(constants))[:min(each, len(constants), count-len(texts))] {
			c := constants[k]
			texts = append(texts, strings.NewReplacer("$LABEL", labelPredicate, "$S", c, "$P", p, "$O", c).Replace(t))
		}
	}
	return texts, nil
}

func distinct(terms []string) []string {
	slices.Sort(terms)
	return slices.Compact(terms)
}

func readTriples(path string) (list [][3]string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cli.UsageErrorf("--base: %v", err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	s := bufio.NewScanner(in)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		if m := ofIRIs.FindStringSubmatch(s.Text()); m != nil {
			list = append(list, [3]string(m[1:]))
		}
	}
	return list, s.Err()
}
