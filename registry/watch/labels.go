package watch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
)

// Labels looks up labels of IRIs at the endpoints that use them, and remembers them. It
// is safe for concurrent use.
type Labels struct {
	ask   Ask
	clock func() time.Time

	mu    sync.Mutex
	known map[labelKey]label
	turns map[string]*turn // by endpoint
}

// Ask executes a query once at an endpoint, within the endpoint's limits and budget.
type Ask func(ctx context.Context, endpoint, text string) (*diff.Result, error)

// A labelKey identifies a label. Languages are separated by commas.
type labelKey struct{ endpoint, languages, iri string }

type label struct {
	text  string // "" if the endpoint has none
	until time.Time
}

// A turn lets one lookup at a time ask an endpoint, and none soon after a failure. The
// holder of the place in free owns the other fields.
type turn struct {
	free     chan struct{}
	rest     time.Time
	failures int // in a row
}

// Bounds of lookups. One lookup sends at most one request.
const (
	labelsAtOnce = 100     // IRIs in one request
	labelsText   = 16_000  // bytes of their IRIs
	labelsKept   = 100_000 // labels in memory
	labelLasts   = 24 * time.Hour
	absenceLasts = time.Hour
	failureRest  = time.Minute // after a failed lookup at the endpoint; each further failure doubles it
	longestRest  = time.Hour
	longestAsk   = 15 * time.Second
)

// NewLabels returns labels without contents.
func NewLabels(ask Ask, clock func() time.Time) *Labels {
	return &Labels{ask: ask, clock: clock, known: map[labelKey]label{}, turns: map[string]*turn{}}
}

// Lookup returns the labels of IRIs in the best of the languages, as far as they are
// known when ctx ends. It asks the endpoint for unknown ones at most once.
func (l *Labels) Lookup(ctx context.Context, endpoint string, languages, iris []string) Namer {
	languages = preferred(languages)
	if missing := l.missing(endpoint, strings.Join(languages, ","), iris); len(missing) > 0 {
		l.fill(ctx, endpoint, languages, missing)
	}
	return l.Known(endpoint, languages)
}

// Known returns the labels that are known, without asking for others.
func (l *Labels) Known(endpoint string, languages []string) Namer {
	list := strings.Join(preferred(languages), ",")
	return func(iri string) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.known[labelKey{endpoint, list, labelled(iri)}].text
	}
}

// preferred returns the languages to look for, best first. English is the default, and
// labels for all languages or without a language are the last resort.
func preferred(languages []string) []string {
	if len(languages) == 0 {
		languages = []string{"en"}
	}
	all := make([]string, 0, len(languages)+2)
	for _, l := range append(slices.DeleteFunc(slices.Clone(languages), lastResort), "mul", "") {
		if l = strings.ToLower(l); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

func lastResort(language string) bool { return language == "" || strings.EqualFold(language, "mul") }

// missing returns the IRIs without a fresh label, as many as fit into one request.
func (l *Labels) missing(endpoint, languages string, iris []string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, size := l.clock(), 0
	for _, iri := range iris {
		iri = labelled(iri)
		known, ok := l.known[labelKey{endpoint, languages, iri}]
		if ok && now.Before(known.until) || !safeIRI(iri) || checkIRI("", iri) != nil || slices.Contains(list, iri) {
			continue
		}
		if size += len(iri) + 3; len(list) == labelsAtOnce || size > labelsText {
			break
		}
		list = append(list, iri)
	}
	return list
}

// Begin returns the labels that are known, and whether others of the first IRIs are on their way. It asks for
// unknown ones as Lookup does, but waits for nothing.
func (l *Labels) Begin(endpoint string, languages, iris []string) (names Namer, coming bool) {
	names, languages = l.Known(endpoint, languages), preferred(languages)
	iris = l.missing(endpoint, strings.Join(languages, ","), iris[:min(len(iris), labelsAtOnce)])
	if len(iris) == 0 {
		return names, false
	}
	t := l.turn(endpoint)
	select {
	case t.free <- struct{}{}:
		return names, l.start(context.Background(), t, endpoint, languages, iris) != nil
	default: // another lookup asks
		return names, true
	}
}

// turn returns the turns of an endpoint.
func (l *Labels) turn(endpoint string) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turns[endpoint]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		l.turns[endpoint] = t
	}
	return t
}

// fill asks for labels when it is this lookup's turn, and waits for them until ctx ends.
func (l *Labels) fill(ctx context.Context, endpoint string, languages, iris []string) {
	t := l.turn(endpoint)
	select {
	case t.free <- struct{}{}:
	case <-ctx.Done():
		return
	}
	done := l.start(ctx, t, endpoint, languages, iris)
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// start asks for labels in a turn, and ends the turn. It returns nil if another lookup has brought them
// meanwhile, or the endpoint rests. The request goes on when ctx ends, so that a slow endpoint's answer is
// there for the next lookup, and a reader who leaves causes no failure.
func (l *Labels) start(ctx context.Context, t *turn, endpoint string, languages, iris []string) <-chan struct{} {
	list := strings.Join(languages, ",")
	iris = l.missing(endpoint, list, iris)
	if len(iris) == 0 || l.clock().Before(t.rest) {
		<-t.free
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { <-t.free }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestAsk)
		defer cancel()
		found, err := l.request(ctx, endpoint, languages, iris)
		if err != nil {
			t.rest = l.clock().Add(min(failureRest<<min(t.failures, 10), longestRest))
			t.failures++
			return
		}
		t.failures = 0
		l.remember(endpoint, list, iris, found)
	}()
	return done
}

// remember keeps the labels of IRIs, and that the others have none.
func (l *Labels) remember(endpoint, languages string, iris []string, found map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.known { // any: what is still needed is asked for again
		if len(l.known)+len(iris) <= labelsKept {
			break
		}
		delete(l.known, key)
	}
	now := l.clock()
	for _, iri := range iris {
		iri = strings.Clone(iri)
		until := now.Add(absenceLasts)
		if found[iri] != "" {
			until = now.Add(labelLasts)
		}
		l.known[labelKey{endpoint, languages, iri}] = label{found[iri], until}
	}
}

// request asks the endpoint for labels and returns the best one of each IRI.
func (l *Labels) request(ctx context.Context, endpoint string, languages, iris []string) (map[string]string, error) {
	text := "SELECT ?iri ?label WHERE { VALUES ?iri { <" + strings.Join(iris, "> <") + "> }" +
		" ?iri <http://www.w3.org/2000/01/rdf-schema#label>|<http://www.w3.org/2004/02/skos/core#prefLabel> ?label" +
		` FILTER(LCASE(LANG(?label)) IN ("` + strings.Join(languages, `", "`) + `")) }`
	r, err := l.ask(ctx, endpoint, text)
	if err != nil {
		return nil, err
	}
	if r == nil || r.Form() != diff.Select || len(r.Vars()) != 2 || !slices.Contains(r.Vars(), "iri") {
		return nil, errors.New("the answer is not a table of labels")
	}
	iri := slices.Index(r.Vars(), "iri")
	best, rank := map[string]string{}, map[string]int{}
	for i := range r.Len() {
		terms := r.Terms(i)
		of, name := terms[iri].Value, terms[1-iri]
		place := slices.Index(languages, strings.ToLower(name.Lang))
		text := strings.Clone(shortText(name.Value)) // not the whole answer in memory
		if name.Kind != diff.Literal || place < 0 || text == "" {
			continue
		}
		if old, ok := rank[of]; !ok || place < old {
			best[of], rank[of] = text, place
		}
	}
	return best, nil
}
