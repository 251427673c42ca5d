package feed

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

// A change is one message of Wikimedia's schema rdf_change, version 1 or 2.
type change struct {
	Schema string `json:"$schema"`
	Meta   struct {
		Domain    string    `json:"domain"`
		Time      time.Time `json:"dt"`
		RequestID string    `json:"request_id"`
		Topic     string    `json:"topic"`
		Partition int       `json:"partition"`
		Offset    *int64    `json:"offset"`
	} `json:"meta"`
	EntityID   string    `json:"entity_id"`
	EntityV1   string    `json:"entity"`
	Revision   int64     `json:"rev_id"`
	RevisionV1 int64     `json:"revision"`
	Time       time.Time `json:"dt"`
	TimeV1     time.Time `json:"event_time"`
	Operation  string    `json:"operation"`
	Sequence   int       `json:"sequence"`
	Length     int       `json:"sequence_length"`
	Added      rdfData   `json:"rdf_added_data"`
	Deleted    rdfData   `json:"rdf_deleted_data"`
	Linked     rdfData   `json:"rdf_linked_shared_data"`
	Unlinked   rdfData   `json:"rdf_unlinked_shared_data"`
	unread     bool      // the data are not read: they are too many or came too fast
}

// An rdfData is a field with triples. Those of chunks are read one by one.
type rdfData struct {
	Type string `json:"mime_type"`
	Text string `json:"data"`
	more []string
}

// canary is the domain of messages that only show that a stream works.
const canary = "canary"

var entityForm = regexp.MustCompile(`^[A-Z][0-9]{1,15}$`)

// readChange reads a message.
func readChange(data []byte) (*change, error) {
	var c change
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if c.Meta.Domain == canary {
		return &c, nil
	}
	switch v1 := strings.HasPrefix(c.Schema, "/wikibase/rdf/update_stream/1."); {
	case v1:
		c.EntityID, c.Revision, c.Time = c.EntityV1, c.RevisionV1, c.TimeV1
	case !strings.HasPrefix(c.Schema, "/mediawiki/wikibase/entity/rdf_change/2."):
		return nil, fmt.Errorf("the schema %.100q is not known", c.Schema)
	}
	if !entityForm.MatchString(c.EntityID) {
		return nil, fmt.Errorf("%.40q is not the id of an entity", c.EntityID)
	}
	return &c, nil
}

// join adds the next chunk. It reports whether that belongs to the same event.
func (c *change) join(next *change) bool {
	if next.Sequence != c.Sequence+1 || next.Length != c.Length || next.EntityID != c.EntityID || next.Revision != c.Revision ||
		next.Operation != c.Operation || next.Meta.RequestID != c.Meta.RequestID {
		return false
	}
	size := 0
	for i, d := range next.fields() {
		own := c.fields()[i]
		if d.Text != "" {
			own.more = append(own.more, d.Text)
		}
		if d.Type != "" {
			own.Type = d.Type
		}
		for _, s := range own.more {
			size += len(s)
		}
	}
	if c.unread = c.unread || size > mostBytes; c.unread {
		for _, d := range c.fields() {
			*d = rdfData{}
		}
	}
	c.Sequence, c.Meta, c.Time = next.Sequence, next.Meta, later(c.Time, next.Time)
	return true
}

func (c *change) fields() [4]*rdfData {
	return [4]*rdfData{&c.Added, &c.Deleted, &c.Linked, &c.Unlinked}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// read returns the triples of a field.
func (d *rdfData) read() (list []sparql.Pattern, err error) {
	for _, text := range append([]string{d.Text}, d.more...) {
		if text == "" {
			continue
		}
		if !strings.HasPrefix(d.Type, "text/turtle") {
			return nil, fmt.Errorf("%.40q is not text/turtle", d.Type)
		}
		part, err := triples(formats.Turtle, []byte(text), "")
		if list = append(list, part...); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// A wiki has the name spaces of a Wikibase.
type wiki struct {
	domain string
	base   string // of entities
	thing  string // the letter of its most numerous entities
}

// wikis are the Wikibases whose entities have another address than the pages about them.
var wikis = map[string]wiki{
	"www.wikidata.org":      {"www.wikidata.org", "http://www.wikidata.org/entity/", "Q"},
	"test.wikidata.org":     {"test.wikidata.org", "http://test.wikidata.org/entity/", "Q"},
	"commons.wikimedia.org": {"commons.wikimedia.org", "https://commons.wikimedia.org/entity/", "M"},
}

// event says what a message changed, besides its place.
func (c *change) event() feed.Event {
	w, known := wikis[c.Meta.Domain]
	if !known { // the IRI of its entities cannot be told
		w = wiki{domain: c.Meta.Domain}
	}
	entity := w.base + c.EntityID
	own := "<" + entity + ">"
	page := "<https://" + w.domain + "/wiki/Special:EntityData/" + c.EntityID + ">"
	document := feed.Loose{Subjects: []string{own, page}, Things: w.base + w.thing}
	if known {
		document.Owner = own
	}
	e := feed.Event{Entity: entity, Edit: c.edit(w)}
	open := func() feed.Event {
		e.Added, e.Removed, e.Loose = nil, nil, []feed.Loose{document}
		if !known {
			e.Entity, e.Loose, e.All = "", nil, true
		}
		return e
	}
	document.Gone = c.Operation == "delete"
	if c.unread || c.Sequence+1 != c.Length || !slices.Contains([]string{"import", "diff", "reconcile"}, c.Operation) {
		return open() // so is a deletion
	}
	var parts [4][]sparql.Pattern
	for i, d := range c.fields() {
		var err error
		if parts[i], err = d.read(); err != nil {
			return open()
		}
	}
	added, removed, linked, unlinked := parts[0], parts[1], parts[2], parts[3]
	if len(added)+len(removed)+len(linked)+len(unlinked) > mostTriples || c.Operation == "reconcile" && !known {
		return open()
	}
	if c.Operation == "reconcile" { // what was there before is not said
		document.Gone = true // what is there now is in the message
		e.Loose = append(e.Loose, document)
	}
	rest := derived{own: own, page: page, whole: c.Operation != "diff"}
	e.Added = rest.with(append(added, linked...))
	e.Removed = rest.with(removed)
	for _, list := range [][]sparql.Pattern{e.Added, e.Removed} {
		for i := range list {
			if known {
				list[i].Owner = own
			}
		}
	}
	e.Added = append(e.Added, told...)
	e.Loose = append(e.Loose, unlinkedTriples(unlinked)...)
	return e
}

// told are triples by which a query service says how far its data are. They change with each event; what their
// objects are is open.
var told = []sparql.Pattern{
	{Subject: "<http://www.wikidata.org>", Predicate: schemaSpace + "dateModified>", Object: `"`},
	{Subject: "<https://www.wikidata.org>", Predicate: schemaSpace + "dateModified>", Object: `"`},
	{Subject: dump, Predicate: schemaSpace + "dateModified>", Object: `"`},
	{Subject: dump, Predicate: wikibaseSpace + "updateStreamNextOffset>", Object: `"`},
	{Subject: dump, Predicate: wikibaseSpace + "updatesCompleteUntil>", Object: `"`},
}

const dump = wikibaseSpace + "Dump>"

// unlinkedTriples describes triples of nodes that other entities may share: whether they are deleted is up to
// the endpoint.
func unlinkedTriples(list []sparql.Pattern) (loose []feed.Loose) {
	at := map[string]int{}
	add := func(subject, predicate string) {
		i, there := at[predicate]
		if !there {
			i = len(loose)
			at[predicate] = i
			loose = append(loose, feed.Loose{Predicate: predicate, Gone: true})
		}
		if s := loose[i].Subjects; len(s) == 0 || s[len(s)-1] != subject {
			loose[i].Subjects = append(s, subject)
		}
	}
	for _, t := range list {
		add(t.Subject, t.Predicate)
		if nodeType(t) != nil {
			add(t.Subject, rdfType)
		}
	}
	return loose
}

// edit names the edit behind a message.
func (c *change) edit(w wiki) feed.Edit {
	if w.base == "" {
		return feed.Edit{Text: fmt.Sprintf("revision %d of %s", c.Revision, c.EntityID)}
	}
	page := "https://" + w.domain + "/wiki/Special:"
	switch c.Operation {
	case "delete":
		return feed.Edit{Text: "deletion of " + c.EntityID, Link: page + "EntityPage/" + c.EntityID}
	case "reconcile":
		text := fmt.Sprintf("repair of %s at revision %d", c.EntityID, c.Revision)
		return feed.Edit{Text: text, Link: fmt.Sprintf("%sPermanentLink/%d", page, c.Revision)}
	}
	return feed.Edit{Text: fmt.Sprintf("revision %d of %s", c.Revision, c.EntityID), Link: fmt.Sprintf("%sDiff/%d", page, c.Revision)}
}

// Name spaces, as patterns begin.
const (
	rdfType       = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
	rdfsLabel     = "<http://www.w3.org/2000/01/rdf-schema#label>"
	schemaSpace   = "<http://schema.org/"
	wikibaseSpace = "<http://wikiba.se/ontology#"
	skosSpace     = "<http://www.w3.org/2004/02/skos/core#"
	ontolexSpace  = "<http://www.w3.org/ns/lemon/ontolex#"
)

// omitted maps predicates to those that have the same object in the full form of the data. Messages omit them.
var omitted = map[string][]string{
	rdfsLabel:                        {schemaSpace + "name>", skosSpace + "prefLabel>"},
	wikibaseSpace + "lemma>":         {rdfsLabel},
	ontolexSpace + "representation>": {rdfsLabel},
	skosSpace + "definition>":        {rdfsLabel},
}

// lexical maps the types that messages have to those that they omit.
var lexical = map[string][]string{"Form": {"Form"}, "LexicalSense": {"Sense"}, "LexicalEntry": {"Lexeme"}}

// nodeType returns the types that a node has in the full form, if the triple shows what kind of node it is.
func nodeType(t sparql.Pattern) []string {
	switch {
	case t.Predicate == wikibaseSpace+"rank>":
		return []string{"Statement"}
	case strings.HasPrefix(t.Object, ontolexSpace):
		return lexical[strings.TrimSuffix(t.Object[len(ontolexSpace):], ">")]
	case strings.Contains(t.Subject, "/reference/"):
		return []string{"Reference"}
	case strings.Contains(t.Subject, "/value/"):
		return []string{"TimeValue", "QuantityValue", "GlobecoordinateValue"}
	}
	return nil
}

const license = "<http://creativecommons.org/publicdomain/zero/1.0/>"

// A derived adds the triples that follow from others. An endpoint that has the full form has them too.
type derived struct {
	own, page string
	whole     bool // the message has all triples of the entity
}

func (d derived) with(list []sparql.Pattern) []sparql.Pattern {
	out, last := list, ""
	for _, t := range list {
		for _, p := range omitted[t.Predicate] {
			out = append(out, sparql.Pattern{Subject: t.Subject, Predicate: p, Object: t.Object})
		}
		if types := nodeType(t); types != nil && (t.Subject != last || len(types) == 1) {
			last = t.Subject
			for _, name := range types {
				out = append(out, sparql.Pattern{Subject: t.Subject, Predicate: rdfType, Object: wikibaseSpace + name + ">"})
			}
		}
		if t.Subject == d.own && (strings.HasPrefix(t.Predicate, schemaSpace) || strings.HasPrefix(t.Predicate, wikibaseSpace)) {
			out = append(out, sparql.Pattern{Subject: d.page, Predicate: t.Predicate, Object: t.Object})
		}
	}
	if d.whole && len(list) > 0 {
		for _, name := range []string{"Item", "Property", "Lexeme", "Form", "Sense", "Mediainfo"} {
			out = append(out, sparql.Pattern{Subject: d.own, Predicate: rdfType, Object: wikibaseSpace + name + ">"})
		}
		out = append(out, sparql.Pattern{Subject: d.page, Predicate: rdfType, Object: schemaSpace + "Dataset>"},
			sparql.Pattern{Subject: d.page, Predicate: schemaSpace + "about>", Object: d.own},
			sparql.Pattern{Subject: d.page, Predicate: schemaSpace + "softwareVersion>", Object: `"1.0.0`},
			sparql.Pattern{Subject: d.page, Predicate: "<http://creativecommons.org/ns#license>", Object: license})
	}
	return out
}
