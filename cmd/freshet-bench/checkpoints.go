package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// Checkpoints keep a recording on a remote endpoint from applying an update twice,
// which would add blank nodes a second time. Each update writes a mark, in the same
// request, into a separate graph, which is emptied when a recording begins and when
// it is complete.
type checkpoints struct {
	h        *recordingSource
	graph    string
	resuming bool // what comes next may have been applied by a process that was killed
}

const appliedProperty = "urn:freshet:applied"

func (h *recordingSource) newCheckpoints(resuming bool) *checkpoints {
	return &checkpoints{h: h, graph: "urn:freshet:recording:" + url.PathEscape(h.graph), resuming: resuming}
}

// begin prepares a recording that does not resume another one. It removes the marks
// of an earlier recording. It warns if the graph has triples: those outside of the
// base would appear in the results.
func (m *checkpoints) begin(ctx context.Context) error {
	if m.resuming {
		return nil
	}
	if err := m.clear(ctx); err != nil {
		return err
	}
	pattern, where := "?s ?p ?o", "the endpoint's default graph"
	if g := m.h.graph; g != "" {
		pattern, where = "GRAPH <"+g+"> { ?s ?p ?o }", "the graph "+g
	}
	there, err := m.ask(ctx, "SELECT (COUNT(*) AS ?n) { "+pattern+" }")
	if err != nil {
		return fmt.Errorf("see whether %s is empty: %w", where, err)
	}
	if len(there) > 0 && there[0] != "0" {
		fmt.Fprintf(m.h.w.Stderr, "warning: %s holds %s triples already; unless they are those of the base, they will be in the results\n", where, there[0])
	}
	return nil
}

func (m *checkpoints) clear(ctx context.Context) error {
	return m.h.post(ctx, "CLEAR SILENT GRAPH <"+m.graph+">")
}

func changesetIRI(name string) string { return "urn:freshet:changeset:" + url.PathEscape(name) }

// add returns the update with its mark.
func (m *checkpoints) add(update, changeset string, n int) string {
	return fmt.Sprintf("%s ;\nINSERT DATA { GRAPH <%s> { <%s> <%s> %q } }", update, m.graph, changesetIRI(changeset), appliedProperty, fmt.Sprint(n))
}

// unapplied lists the updates of a changeset that have not been applied. After the
// first changeset with such an update, no changeset has been applied.
func (m *checkpoints) unapplied(ctx context.Context, changeset string, updates int) ([]int, error) {
	var done []string
	if m.resuming {
		var err error
		if done, err = m.settled(ctx, changeset); err != nil {
			return nil, err
		}
		m.resuming = len(done) >= updates
	}
	var left []int
	for n := range updates {
		if !slices.Contains(done, fmt.Sprint(n)) {
			left = append(left, n)
		}
	}
	return left, nil
}

// settled waits until the marks of a changeset stop changing, and returns them: the
// endpoint may still be executing the last request of a process that was killed.
func (m *checkpoints) settled(ctx context.Context, changeset string) ([]string, error) {
	const calm, pause = 4, 250 * time.Millisecond
	var was []string
	for same := 0; ; same++ {
		done, err := m.read(ctx, changeset)
		if err != nil {
			return nil, fmt.Errorf("see what has been applied already: %w", err)
		}
		if same > 0 && len(done) != len(was) {
			same = 0
		}
		if was = done; same >= calm {
			return done, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// notAhead returns an error when a changeset after this one has marks: the recording
// has lost the revisions in between, and the dataset cannot go back.
func (m *checkpoints) notAhead(ctx context.Context, changeset string) error {
	later, err := m.ask(ctx, fmt.Sprintf(`SELECT (STR(?c) AS ?n) { GRAPH <%s> { ?c <%s> ?x } FILTER(STR(?c) > "%s" && STR(?c) < "%s") } LIMIT 1`,
		m.graph, appliedProperty, changesetIRI(changeset), changesetIRI(":"))) // times begin with digits, the base does not
	if err != nil {
		return fmt.Errorf("see how far the dataset is: %w", err)
	}
	if len(later) > 0 {
		return fmt.Errorf("the endpoint's data are ahead of the unfinished recording: <%s> has been applied already; "+
			"load the base again, remove the .part file, and start again", later[0])
	}
	return nil
}

// notBehind returns an error when a recorded changeset lacks marks: the endpoint has
// lost data since, as an endpoint in memory does when it restarts.
func (m *checkpoints) notBehind(ctx context.Context, changeset string, updates int) error {
	done, err := m.read(ctx, changeset)
	if err != nil {
		return fmt.Errorf("see how far the dataset is: %w", err)
	}
	if len(done) < updates {
		return fmt.Errorf("the endpoint's data are behind the unfinished recording: <%s> has been recorded, but is not there; "+
			"load the base again, remove the .part file, and start again", changesetIRI(changeset))
	}
	return nil
}

func (m *checkpoints) read(ctx context.Context, changeset string) ([]string, error) {
	return m.ask(ctx, fmt.Sprintf("SELECT ?n { GRAPH <%s> { <%s> <%s> ?n } }", m.graph, changesetIRI(changeset), appliedProperty))
}

// ask runs a query and returns the values of ?n.
func (m *checkpoints) ask(ctx context.Context, query string) ([]string, error) {
	body := strings.NewReader(url.Values{"query": {query}}.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.h.url, body)
	if err != nil {
		return nil, cli.UsageErrorf("--endpoint: %v", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/sparql-results+json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the endpoint answers %s", resp.Status)
	}
	var answer struct {
		Results struct {
			Bindings []map[string]struct {
				Value string `json:"value"`
			} `json:"bindings"`
		} `json:"results"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	var list []string
	for _, b := range answer.Results.Bindings {
		list = append(list, b["n"].Value)
	}
	return list, nil
}
