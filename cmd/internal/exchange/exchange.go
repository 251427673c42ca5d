// Package exchange writes what is registered in a store as lines of JSON, and reads them into another one.
package exchange

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store"
)

// A Line is one line of an export, with one of its fields set. Results and
// history are not Line; a backup holds them.
type Line struct {
	Endpoint *registry.Endpoint `json:"endpoint,omitempty"`
	Token    *registry.Token    `json:"token,omitempty"`
	Query    *registry.Query    `json:"query,omitempty"`
	Profile  *registry.Profile  `json:"profile,omitempty"`
	Rule     *registry.Rule     `json:"rule,omitempty"`
}

// Export calls put for each object of a store: endpoints, tokens, queries with how often they changed,
// profiles, and the rules of queries.
func Export(db *store.DB, put func(Line) error) error {
	endpoints, err := db.Endpoints.Endpoints()
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if err := put(Line{Endpoint: &e}); err != nil {
			return err
		}
	}
	tokens, err := db.Tokens.Tokens()
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if err := put(Line{Token: &t}); err != nil {
			return err
		}
	}
	err = eachPage(func(cursor string) ([]registry.ListedQuery, string, error) {
		return db.Catalog.List(registry.QueryFilter{}, cursor, 500)
	}, func(l registry.ListedQuery) error {
		q := l.Query
		s, err := db.Catalog.Stats(q.ID)
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return err
		}
		if s.Executions > 1 {
			q.Learnt = q.Learnt.Plus(s.Changes, s.Executions-1, s.CheckedAt.Sub(q.CreatedAt).Hours()/24)
		}
		return put(Line{Query: &q})
	})
	if err != nil {
		return err
	}
	err = eachPage(func(cursor string) ([]registry.ListedProfile, string, error) {
		return db.Rounds.ListProfiles(registry.ProfileFilter{}, cursor, 500)
	}, func(p registry.ListedProfile) error { return put(Line{Profile: &p.Profile}) })
	if err != nil {
		return err
	}
	return exportRules(db, put)
}

// LeftOut counts the subscriptions of a store, which an export lacks: they hold positions in the history. Those of receivers of
// rules begin again with their rules.
func LeftOut(db *store.DB) (n int, err error) {
	for s, err := range registry.EachSubscription(db.Subscriptions.Subscriptions, "") {
		if err != nil {
			return n, err
		}
		if s.Way != registry.Alerts {
			n++
		}
	}
	return n, nil
}

func exportRules(db *store.DB, put func(Line) error) error {
	rules, err := db.Rules.Rules()
	if err != nil {
		return err
	}
	for _, r := range rules {
		_, err := db.Queries.Query(r.Query)
		if errors.Is(err, registry.ErrNotFound) {
			continue // the rule has ended
		}
		if err == nil {
			err = put(Line{Rule: &r.Rule})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachPage calls visit for every member of the pages that list returns.
func eachPage[T any](list func(cursor string) (page []T, next string, err error), visit func(T) error) error {
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := list(cursor)
		if err != nil {
			return err
		}
		for _, x := range page {
			if err := visit(x); err != nil {
				return err
			}
		}
		cursor = next
	}
	return nil
}

// Counts are the numbers of lines of an import.
type Counts struct{ Added, There, Refused int }

// errThere reports that a record's name or id is taken.
var errThere = errors.New("there already")

// Import adds line by line; each is one transaction. A line that cannot be
// registered is named and left out.
func Import(db *store.DB, in io.Reader, say io.Writer) (n Counts, err error) {
	rules, err := db.Rules.Rules()
	if err != nil {
		return n, err
	}
	names := map[string]bool{}
	for _, r := range rules {
		names[r.Caller+" "+r.Name] = true
	}
	lines := bufio.NewReader(in)
	for number := 1; ; number++ {
		line, end := lines.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return n, end
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var wrong *registry.Problem
			switch err := importLine(db, line, names); {
			case errors.Is(err, errThere), errors.Is(err, registry.ErrExists):
				n.There++
			case errors.Is(err, errLine), errors.As(err, &wrong):
				n.Refused++
				fmt.Fprintf(say, "line %d: %v\n", number, err)
			case err != nil:
				return n, fmt.Errorf("line %d: %w", number, err)
			default:
				n.Added++
			}
		}
		if end == io.EOF {
			return n, nil
		}
	}
}

// errLine reports that a line of an export cannot be read.
var errLine = errors.New("not a line of an export")

// importLine stores the object of a line. names are those of the rules that are stored.
func importLine(db *store.DB, line []byte, names map[string]bool) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var r Line
	if err := d.Decode(&r); err != nil {
		return fmt.Errorf("%w: %w", errLine, err)
	}
	if d.More() {
		return fmt.Errorf("%w: more than one object", errLine)
	}
	if r.Rule != nil {
		return r.addRule(db, names)
	}
	return r.store(db)
}

// mostDays is the longest time that a query can have been known for, a century.
const mostDays = 36_500

// readmit analyses a query as registering it would.
func (r Line) readmit(db *store.DB) (registry.Query, error) {
	e, err := db.Endpoints.Endpoint(r.Query.Endpoint)
	if errors.Is(err, registry.ErrNotFound) {
		return registry.Query{}, fmt.Errorf("%w: query %s: there is no endpoint %s, add it first", errLine, r.Query.ID, r.Query.Endpoint)
	} else if err != nil {
		return registry.Query{}, err
	}
	if l := r.Query.Learnt; l != nil && !(l.Days >= 0 && l.Days <= mostDays) {
		return registry.Query{}, fmt.Errorf("%w: query %s: learnt.days is %g, which is not from 0 to %d", errLine, r.Query.ID, l.Days, mostDays)
	}
	q, err := registry.Revalidate(*r.Query, e)
	if err != nil {
		return q, fmt.Errorf("query %s: %w", r.Query.ID, err)
	}
	return q, nil
}

// checkHolders refuses a query without a holder, and one to which a caller gives the name of another of its queries.
func checkHolders(db *store.DB, q *registry.Query) error {
	if _, err := db.Queries.Query(q.ID); err == nil {
		return errThere
	} else if !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	if len(q.Holders) == 0 {
		return fmt.Errorf("%w: query %s: it has no holder", errLine, q.ID)
	}
	for _, h := range q.Holders {
		taken, err := db.Queries.FindName(h.Caller, h.Name, false, 1)
		if err != nil {
			return err
		}
		if len(taken) > 0 {
			return fmt.Errorf("%w: query %s: %s calls %s %q: choose another name", errLine, q.ID, h.Caller, taken[0].ID, h.Name)
		}
	}
	return nil
}

// checkProfile refuses a profile without an id, items, or an endpoint that is stored.
func checkProfile(db *store.DB, p *registry.Profile) error {
	switch _, err := db.Endpoints.Endpoint(p.Endpoint); {
	case errors.Is(err, registry.ErrNotFound):
		return fmt.Errorf("%w: profile %s: there is no endpoint %s, add it first", errLine, p.ID, p.Endpoint)
	case err != nil:
		return err
	case p.ID == "" || len(p.Items) == 0:
		return fmt.Errorf("%w: profile %s: it needs an id and items", errLine, p.ID)
	}
	return nil
}

// addRule stores a rule without a state, so that it is evaluated as a new one.
func (r Line) addRule(db *store.DB, names map[string]bool) error {
	x := *r.Rule
	if _, err := db.Rules.Rule(x.ID); err == nil || names[x.Caller+" "+x.Name] {
		return errThere
	} else if !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	q, err := db.Queries.Query(x.Query)
	if errors.Is(err, registry.ErrNotFound) {
		return fmt.Errorf("%w: rule %s: there is no query %s, add it first", errLine, x.Name, x.Query)
	} else if err != nil {
		return err
	}
	if err := alert.CheckStored(&x, q.Form); err != nil {
		return fmt.Errorf("rule %s: %w", x.Name, err)
	}
	first := new(registry.RuleState).Since(new(registry.RuleState))
	if err := db.Rules.EditRules(&registry.RuleEdit{Put: []registry.Rule{x},
		States: map[string]*registry.RuleChange{x.ID: first}}); err != nil {
		return err
	}
	names[x.Caller+" "+x.Name] = true
	return nil
}

func (r Line) store(db *store.DB) error {
	switch {
	case r.Endpoint != nil:
		e := r.Endpoint.WithDefaults()
		if err := registry.CheckEndpoint(e, scheduler.Validate); err != nil {
			return fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
		return addNew(db.Endpoints.EditEndpoint, e.Name, registry.Configured{Endpoint: e})
	case r.Token != nil:
		if err := registry.CheckTokenName(r.Token.Name); err != nil {
			return fmt.Errorf("%w: %w", errLine, err)
		}
		return db.Tokens.PutToken(*r.Token)
	case r.Query != nil:
		fresh, err := r.readmit(db)
		if err != nil {
			return err
		}
		if err := checkHolders(db, &fresh); err != nil {
			return err
		}
		return addNew(db.Queries.EditQuery, fresh.ID, fresh)
	case r.Profile != nil:
		if err := checkProfile(db, r.Profile); err != nil {
			return err
		}
		return addNew(func(id string, do func(p *registry.Profile, found bool) error) (registry.Profile, error) {
			return db.Profiles.EditProfile(id, registry.Bounds{}, do)
		}, r.Profile.ID, *r.Profile)
	}
	return fmt.Errorf("%w: neither endpoint, token, query, profile nor rule", errLine)
}

// addNew stores an object unless its key is taken.
func addNew[T, R any](edit func(key string, do func(x *T, found bool) error) (R, error), key string, fresh T) error {
	_, err := edit(key, func(x *T, found bool) error {
		if found {
			return errThere
		}
		*x = fresh
		return nil
	})
	return err
}
