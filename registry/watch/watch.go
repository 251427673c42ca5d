package watch

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
)

// A Kind says what a watch is about.
type Kind string

// The kinds of watches. ByQuery is of a query that was given as such, in a Link.
const (
	Entity    Kind = "entity"
	Instances Kind = "instances"
	Members   Kind = "members"
	ByQuery   Kind = "query"
)

// Kinds lists the kinds of watches of an IRI.
func Kinds() []Kind { return []Kind{Entity, Instances, Members} }

// The directions in which an entity is watched.
const (
	Outgoing = "outgoing" // its properties and their values
	Incoming = "incoming" // the resources that refer to it
	Both     = "both"
)

// Directions lists the directions.
func Directions() []string { return []string{Outgoing, Incoming, Both} }

// A Watch says what to watch.
type Watch struct {
	Kind Kind   `json:"kind"`
	IRI  string `json:"iri,omitempty"`
	// Text is the query of kind ByQuery.
	Text string `json:"-"`
	// Direction is of an entity only.
	Direction string `json:"direction,omitempty"`
	// Properties are those of an entity to watch; none means all within Within. The
	// instances of a class and the members of a category have one: the property that
	// leads from them to it.
	Properties []string `json:"properties,omitempty"`
	// Within is how the IRIs of the watched properties of an entity begin.
	Within string `json:"within,omitempty"`
	// Labels are the preferred languages of labels, best first.
	Labels []string `json:"labels,omitempty"`
}

// Tag marks the registrations that are watches. Languages of labels are in a tag of
// their own that begins with labelsTag. It has no comma, because forms separate tags by
// commas.
const (
	Tag              = "watch"
	labelsTag        = "labels:"
	betweenLanguages = "+"
)

// What a watch may have.
const (
	maxIRI        = 2048
	maxProperties = 50
	maxLanguages  = 8
)

// Normalize returns w with page addresses replaced by IRIs and with its defaults. The
// error is a *registry.Problem.
func (w Watch) Normalize() (Watch, error) {
	if w.Kind == "" {
		w.Kind = Entity
	}
	if w.Kind == ByQuery && w.Text != "" {
		return w.query()
	}
	if !slices.Contains(Kinds(), w.Kind) {
		return w, wrong("kind", "kind must be entity, instances or members, not %q", w.Kind)
	}
	w.IRI = EntityIRI(w.IRI)
	if err := checkIRI("iri", w.IRI); err != nil {
		return w, err
	}
	if err := cmp.Or(checkEntity("iri", w.IRI), checkPage(w.IRI)); err != nil {
		return w, err
	}
	site := SiteOf(w.IRI)
	w.Properties = slices.Clone(w.Properties)
	for i, p := range w.Properties {
		w.Properties[i] = site.propertyIRI(p)
		if err := checkIRI(fmt.Sprintf("properties/%d", i), w.Properties[i]); err != nil {
			return w, err
		}
	}
	slices.Sort(w.Properties)
	w.Properties = slices.Compact(w.Properties)
	if len(w.Properties) > maxProperties {
		return w, wrong("properties", "at most %d properties", maxProperties)
	}
	if err := checkLanguages(w.Labels); err != nil {
		return w, err
	}
	if w.Kind == Entity {
		return w.entity(site)
	}
	return w.group(site)
}

// checkEntity refuses pages that are not about an entity.
func checkEntity(field, iri string) error {
	if otherPage.MatchString(iri) {
		return wrong(field, "%q is a page of Wikidata, but not of an entity: give one such as https://www.wikidata.org/wiki/Q42", shortened(iri))
	}
	return nil
}

// checkPage refuses in iri what is a link to something else than an entity.
func checkPage(iri string) error {
	u, err := url.Parse(iri)
	if err != nil {
		return nil
	}
	host := strings.ToLower(u.Hostname())
	known := shortener.MatchString(host+u.Path) || wikipedia.MatchString(host) || queryService.MatchString(host) &&
		editorPage.MatchString(u.Path)
	p := &registry.Problem{}
	switch l, err := ofAddress(iri); {
	case err == nil && l.Kind == ByQuery:
		return wrong("iri", "this is a link to a query, not the IRI of an entity: give it as link (with freshet follow, for example)")
	case known && errors.As(err, &p):
		return wrong("iri", "%s", p.Detail)
	}
	return nil
}

// anyLanguage is what Wikidata's editor replaces by the language of its reader.
const anyLanguage = "[AUTO_LANGUAGE]"

// query completes the watch of a query.
func (w Watch) query() (Watch, error) {
	if w.IRI != "" || w.Direction != "" || w.Within != "" || len(w.Properties) > 0 {
		return w, bad("the link holds a query, which says itself what is watched: leave out iri, direction, properties and within")
	}
	language := "en"
	if len(w.Labels) > 0 {
		language = w.Labels[0]
	}
	w.Text = strings.ReplaceAll(w.Text, anyLanguage, language)
	return w, checkLanguages(w.Labels)
}

// entity completes the watch of an entity.
func (w Watch) entity(site Site) (Watch, error) {
	if w.Direction == "" {
		w.Direction = Outgoing
	}
	switch {
	case !slices.Contains(Directions(), w.Direction):
		return w, wrong("direction", "direction must be outgoing, incoming or both, not %q", w.Direction)
	case len(w.Properties) > 0 && w.Within != "":
		return w, wrong("within", "give either properties or within")
	case w.Within != "":
		return w, checkIRI("within", w.Within)
	case len(w.Properties) == 0:
		w.Within = site.within
	}
	return w, nil
}

// group completes the watch of a class or a category.
func (w Watch) group(site Site) (Watch, error) {
	switch {
	case w.Direction != "":
		return w, wrong("direction", "only an entity has a direction")
	case w.Within != "":
		return w, wrong("within", "only an entity has a range of properties")
	case len(w.Properties) > 1:
		return w, wrong("properties", "give the one property that leads from a member to the %s", map[Kind]string{Instances: "class",
			Members: "category"}[w.Kind])
	case len(w.Properties) == 1:
	case w.Kind == Instances:
		w.Properties = []string{site.class}
	case site.category == "":
		return w, wrong("properties", "%s has no property for the members of a category: name one in properties", site.Title)
	default:
		w.Properties = []string{site.category}
	}
	return w, nil
}

func wrong(field, format string, a ...any) error {
	detail := fmt.Sprintf(format, a...)
	return &registry.Problem{Kind: registry.KindBadSetting, Detail: detail,
		Errors: []registry.FieldError{{Pointer: "/" + field, Detail: detail}}}
}

// safeIRI reports whether an IRI can be written between angle brackets.
func safeIRI(iri string) bool {
	return len(iri) <= maxIRI && !strings.ContainsFunc(iri, func(r rune) bool {
		return r <= ' ' ||
			strings.ContainsRune("<>\"{}|^`\\\u007f\ufffd", r)
	})
}

func checkIRI(field, iri string) error {
	u, err := url.Parse(iri)
	if err != nil || !u.IsAbs() || u.Host == "" && u.Opaque == "" || !safeIRI(iri) {
		return wrong(field, "%q is not an absolute IRI of at most %d bytes, such as http://www.wikidata.org/entity/Q42", shortened(iri), maxIRI)
	}
	return nil
}

func shortened(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}

var language = regexp.MustCompile(`^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8}){0,3}$`)

func checkLanguages(list []string) error {
	if len(list) > maxLanguages {
		return wrong("labels", "at most %d languages", maxLanguages)
	}
	for i, l := range list {
		if !language.MatchString(l) {
			return wrong(fmt.Sprintf("labels/%d", i), "%q is not a language tag such as en or de-AT", shortened(l))
		}
	}
	return nil
}

// Apply makes a registration of the watch: it sets the text and adds the tags.
func (w Watch) Apply(reg *registry.Registration) {
	reg.Text = w.Query()
	reg.Tags = append(slices.Clone(reg.Tags), Tag)
	if len(w.Labels) > 0 {
		reg.Tags = append(reg.Tags, labelsTag+strings.Join(w.Labels, betweenLanguages))
	}
}

// Of returns what a registered query watches for a caller. ok is false if no holder
// registered it as a watch.
func Of(q *registry.Query, caller string) (w Watch, ok bool) {
	tags := q.Tags()
	if h, holds := q.Holder(caller); holds && slices.Contains(h.Tags, Tag) {
		tags = h.Tags
	}
	if !slices.Contains(tags, Tag) {
		return Watch{}, false
	}
	if w, ok = parse(q.Normal); !ok {
		w = Watch{Kind: ByQuery, Text: q.Text}
	}
	for _, t := range tags {
		text, found := strings.CutPrefix(t, labelsTag)
		if list := strings.Split(text, betweenLanguages); found && checkLanguages(list) == nil {
			w.Labels = list
			break
		}
	}
	return w, true
}
