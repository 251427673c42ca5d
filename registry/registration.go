package registry

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/sparql"
)

// A Registration is a caller's request to keep a query fresh.
type Registration struct {
	Endpoint        string     `json:"endpoint"`
	Text            string     `json:"query"`
	Name            string     `json:"name"`
	Tags            []string   `json:"tags"`
	Weight          float64    `json:"weight"` // 0 means 1
	MaxStaleness    Duration   `json:"max_staleness"`
	MinInterval     Duration   `json:"min_interval"`
	Alone           bool       `json:"alone"`   // never ask it together with other queries
	Ordered         *bool      `json:"ordered"` // nil: true if the text has a top-level ORDER BY
	DefaultGraphURI []string   `json:"default_graph_uri"`
	NamedGraphURI   []string   `json:"named_graph_uri"`
	From            *time.Time `json:"from"`
	Until           *time.Time `json:"until"`
	Public          bool       `json:"public"`
	Urgency         string     `json:"urgency"`
	Life            string     `json:"life"`
	// Replace moves the name from another query of the caller to this one and
	// releases that query, in the same transaction.
	Replace bool `json:"replace"`
}

// Limits of what a holder may set.
const (
	maxTags  = 32
	maxGraph = 64
)

func (reg Registration) holder(caller string, now time.Time) Holder {
	return Holder{Caller: caller, Name: reg.Name, Tags: sortedUnique(reg.Tags), Weight: reg.Weight,
		MaxStaleness: reg.MaxStaleness, MinInterval: reg.MinInterval, Alone: reg.Alone, From: utc(reg.From), Until: utc(reg.Until),
		Public: reg.Public, Urgency: reg.Urgency, Life: reg.Life, Since: now}
}

func sortedUnique(tags []string) []string {
	if len(tags) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(tags)))
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// analyse checks a registration at an endpoint, except for its name, and returns
// the query that it would create.
func (reg Registration) analyse(e Endpoint, now time.Time) (Query, error) {
	reg.Text = strings.TrimPrefix(reg.Text, "\ufeff") // endpoints refuse a byte order mark
	a, err := analyseText(reg.Text, e)
	if err != nil {
		return Query{}, err
	}
	if err := reg.check(); err != nil {
		return Query{}, err
	}
	if err := checkUntil(reg.Until, now); err != nil {
		return Query{}, err
	}
	q := Query{Endpoint: e.Name, Text: reg.Text, Normal: a.Normal, Ordered: a.Ordered && diff.Form(a.Form) == diff.Select,
		DefaultGraphs: sortedUnique(reg.DefaultGraphURI), NamedGraphs: sortedUnique(reg.NamedGraphURI)}
	if reg.Ordered != nil {
		q.Ordered = *reg.Ordered
	}
	if err := q.describe(a); err != nil {
		return Query{}, err
	}
	q.ID = Identity(q.Endpoint, q.Normal, q.Ordered, q.DefaultGraphs, q.NamedGraphs)
	return q, nil
}

// describe sets the fields that follow from the query's text besides its normal
// form.
func (q *Query) describe(a *sparql.Analysis) error {
	q.Form, q.OrderKeys, q.Limit, q.Constants, q.Warnings = diff.Form(a.Form), a.OrderKeys, a.Limit, a.Constants, nil
	if q.Ordered && q.Form != diff.Select {
		return WrongField(KindBadSetting, "/ordered", "only the result of a SELECT has an order, this is %s", q.Form)
	}
	for _, w := range a.Warnings {
		q.Warnings = append(q.Warnings, Warning(w))
	}
	return nil
}

func analyseText(text string, e Endpoint) (*sparql.Analysis, error) {
	if strings.TrimSpace(text) == "" {
		return nil, malformed("the query text is empty")
	}
	if !utf8.ValidString(text) {
		return nil, malformed("the query text is not valid UTF-8")
	}
	a, err := sparql.Analyse(text)
	switch {
	case errors.Is(err, sparql.ErrUpdate):
		return nil, WrongField(KindUpdateRefused, "/query", "%v", err)
	case err != nil:
		return nil, malformed("%v", err)
	}
	foreign := slices.DeleteFunc(slices.Clone(a.Services), e.provides)
	if len(foreign) > 0 && !e.AllowService {
		return nil, WrongField(KindServiceRefused, "/query",
			"the query calls SERVICE %s; an admin may add it to own_services of %s if that endpoint provides it itself, or else set "+
				"allow_service", foreign[0], e.Name)
	}
	if len(foreign) == 0 { // every service is the endpoint's own
		a.Warnings = slices.DeleteFunc(a.Warnings, func(w sparql.Warning) bool { return w.Code == sparql.Service })
	}
	if len(a.SideEffects) > 0 && !e.AllowService {
		return nil, WrongField(KindServiceRefused, "/query",
			"%s makes the endpoint act beyond the query; an admin may set allow_service on %s", a.SideEffects[0], e.Name)
	}
	return a, nil
}

func (reg Registration) check() error {
	if reg.Replace && reg.Name == "" {
		return WrongField(KindBadSetting, "/replace", "replace moves a name: set name")
	}
	if err := checkTagsAndWeight(reg.Tags, reg.Weight); err != nil {
		return err
	}
	if err := checkUrgencyAndLife(reg.Urgency, reg.Life); err != nil {
		return err
	}
	for _, g := range []struct {
		field string
		uris  []string
	}{{"default_graph_uri", reg.DefaultGraphURI}, {"named_graph_uri", reg.NamedGraphURI}} {
		if len(g.uris) > maxGraph {
			return WrongField(KindBadSetting, "/"+g.field, "at most %d graphs", maxGraph)
		}
		for i, s := range g.uris {
			if u, err := url.Parse(s); err != nil || !u.IsAbs() {
				return WrongField(KindBadSetting, fmt.Sprintf("/%s/%d", g.field, i), "a graph is named by an absolute IRI")
			}
		}
	}
	return checkWindow(reg.From, reg.Until)
}

func checkTagsAndWeight(tags []string, weight float64) error {
	if len(tags) > maxTags {
		return WrongField(KindBadSetting, "/tags", "at most %d tags", maxTags)
	}
	for i, t := range tags {
		if err := CheckTag(fmt.Sprintf("/tags/%d", i), t); err != nil {
			return err
		}
	}
	if !(weight >= 0 && weight <= 1e6) {
		return WrongField(KindBadSetting, "/weight", "a weight must be from 0 to 1,000,000")
	}
	return nil
}

// CheckTag returns a *Problem about a field if a text cannot be a tag.
func CheckTag(pointer, tag string) error {
	if len(tag) > maxName || !printable(tag) || !visible(tag) {
		return WrongField(KindBadSetting, pointer, "a tag has 1 to %d printable bytes", maxName)
	}
	return nil
}

// checkUntil refuses an until in the past.
func checkUntil(until *time.Time, now time.Time) error {
	if until != nil && !until.IsZero() && !until.After(now) {
		return WrongField(KindBadSetting, "/until", "until must be in the future: it is %s now", now.UTC().Format(time.RFC3339))
	}
	return nil
}

func checkWindow(from, until *time.Time) error {
	if from != nil && until != nil && !from.Before(*until) {
		return WrongField(KindBadSetting, "/until", "until must be later than from")
	}
	return nil
}

// A Patch edits a registration. Nil fields stay unchanged. A zero time in From
// or Until removes the bound.
type Patch struct {
	Name         *string    `json:"name"`
	Tags         *[]string  `json:"tags"`
	Weight       *float64   `json:"weight"`
	MaxStaleness *Duration  `json:"max_staleness"`
	MinInterval  *Duration  `json:"min_interval"`
	Alone        *bool      `json:"alone"`
	From         *time.Time `json:"from"`
	Until        *time.Time `json:"until"`
	Public       *bool      `json:"public"`
	Urgency      *string    `json:"urgency"`
	Life         *string    `json:"life"`
}

func (p Patch) check() error {
	var h Holder
	p.apply(&h)
	if err := checkUrgencyAndLife(h.Urgency, h.Life); err != nil {
		return err
	}
	return checkTagsAndWeight(h.Tags, h.Weight)
}

func (p Patch) apply(h *Holder) {
	set(&h.Name, p.Name)
	set(&h.Weight, p.Weight)
	set(&h.MaxStaleness, p.MaxStaleness)
	set(&h.MinInterval, p.MinInterval)
	set(&h.Alone, p.Alone)
	set(&h.Public, p.Public)
	set(&h.Urgency, p.Urgency)
	set(&h.Life, p.Life)
	if p.Tags != nil {
		h.Tags = sortedUnique(*p.Tags)
	}
	setTime(&h.From, p.From)
	setTime(&h.Until, p.Until)
}

// setTime sets a time; the zero time clears it.
func setTime(dst **time.Time, v *time.Time) {
	switch {
	case v == nil:
	case v.IsZero():
		*dst = nil
	default:
		*dst = utc(v)
	}
}

func set[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

// Revalidate checks an exported query as registration does and returns it in
// this version's form. Its id must follow from its text, according to this
// version or the one that wrote it.
func Revalidate(q Query, e Endpoint) (Query, error) {
	a, err := analyseText(q.Text, e)
	if err != nil {
		return q, err
	}
	if err := q.describe(a); err != nil {
		return q, err
	}
	identity := func(normal string) string {
		return Identity(q.Endpoint, normal, q.Ordered, q.DefaultGraphs, q.NamedGraphs)
	}
	switch q.ID {
	case identity(a.Normal):
		q.Normal = a.Normal
	case identity(q.Normal):
	default:
		return q, WrongField(KindBadQuery, "/id", "the id %s is not that of the query's text", q.ID)
	}
	return q, nil
}
