package watch

import (
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A Site is a publisher of data whose pages and IRIs are known.
type Site struct {
	Name  string // of the endpoint and of the pack that ask it; "" for an unknown site
	Title string // for people

	iris     string // how the IRIs of its entities begin
	within   string // the properties that an entity's watch covers, "" for all
	class    string // property from an instance to its class
	category string // property from a member to its category
	// labels maps the beginnings of IRIs without labels to those of the IRIs that have
	// them.
	labels [2]string
}

const (
	rdfType   = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
	dcSubject = "http://purl.org/dc/terms/subject"
	direct    = "http://www.wikidata.org/prop/direct/"
	wikidata  = "http://www.wikidata.org/entity/"
)

var sites = []Site{
	// An entity has all of its history, labels and links to Wikipedia as properties.
	// The direct properties are the statements that count.
	{Name: "wikidata", Title: "Wikidata", iris: wikidata, within: direct, class: direct + "P31", labels: [2]string{direct, wikidata}},
	{Name: "dbpedia", Title: "DBpedia", iris: "http://dbpedia.org/", class: rdfType, category: dcSubject},
	{Name: "uniprot", Title: "UniProt", iris: "http://purl.uniprot.org/", class: rdfType, category: dcSubject},
	{Name: "europeana", Title: "Europeana", iris: "http://data.europeana.eu/", class: rdfType, category: dcSubject},
}

// SiteOf returns the site of an entity.
func SiteOf(iri string) Site {
	for _, s := range sites {
		if strings.HasPrefix(iri, s.iris) {
			return s
		}
	}
	return Site{Title: "this site", class: rdfType, category: dcSubject}
}

// pages maps the addresses of pages about entities to their IRIs.
var pages = []struct {
	page *regexp.Regexp
	iri  string
}{
	{regexp.MustCompile(`^https?://(?:www\.|m\.)?wikidata\.org/(?:wiki|entity)/(?:Special:EntityPage/|Special:EntityData/|` +
		`Item:|Property:|Lexeme:)?([QPL][1-9][0-9]*(?:-[FS][1-9][0-9]*)?)(?:\.[a-z]+)?(?:[?#].*)?$`), wikidata + "$1"},
	{regexp.MustCompile(`^(?:wd:([QPL][1-9][0-9]*)|(Q[1-9][0-9]*))$`), wikidata + "$1$2"},
	{regexp.MustCompile(`^https?://dbpedia\.org/data/([^?#]+)\.(?:ttl|json|jsonld|rdf|ntriples|n3)(?:[?#].*)?$`),
		"http://dbpedia.org/resource/$1"},
	{regexp.MustCompile(`^https?://dbpedia\.org/(?:page|data|resource)/([^?#]+)(?:[?#].*)?$`), "http://dbpedia.org/resource/$1"},
	{regexp.MustCompile(`^https?://dbpedia\.org/(ontology|property|class/yago)/([^?#]+)(?:[?#].*)?$`), "http://dbpedia.org/$1/$2"},
	{regexp.MustCompile(`^https?://(?:www\.|rest\.)?uniprot\.org/uniprot(?:kb)?/([A-Z0-9]+)(?:[./?#].*)?$`),
		"http://purl.uniprot.org/uniprot/$1"},
	{regexp.MustCompile(`^https?://(?:www\.)?europeana\.eu/(?:[a-z]{2}/)?item/([^?#]+)(?:[?#].*)?$`), "http://data.europeana.eu/item/$1"},
}

// EntityIRI returns the IRI of the entity that a page is about. Any other text is
// returned without surrounding space and angle brackets.
func EntityIRI(text string) string {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "<"); ok {
		text = strings.TrimSuffix(inner, ">")
	}
	for _, p := range pages {
		if !p.page.MatchString(text) {
			continue
		}
		iri := p.page.ReplaceAllString(text, p.iri)
		if iri != text {
			iri = escapedLetters.ReplaceAllStringFunc(iri, letters)
		}
		return iri
	}
	return text
}

// escapedLetters matches the characters outside ASCII that browsers escape in addresses
// and IRIs do not.
var escapedLetters = regexp.MustCompile(`(?:%[89A-Fa-f][0-9A-Fa-f])+`)

func letters(escaped string) string {
	if plain, err := url.PathUnescape(escaped); err == nil && utf8.ValidString(plain) {
		return plain
	}
	return escaped
}

// otherPage matches the pages of Wikidata. No entity has such an IRI.
var otherPage = regexp.MustCompile(`^https?://(?:www\.|m\.)?wikidata\.org/(?:wiki|w)/`)

var wikidataProperty = regexp.MustCompile(`^(?:wdt:|https?://(?:www\.)?wikidata\.org/(?:entity|prop/direct)/)?(P[1-9][0-9]*)$`)

// propertyIRI returns the IRI of a property as it is used at the site.
func (s Site) propertyIRI(text string) string {
	iri := EntityIRI(text)
	if m := wikidataProperty.FindStringSubmatch(iri); m != nil && (s.Name == "wikidata" || len(m[0]) > len(m[1])) {
		return direct + m[1]
	}
	return iri
}

// labelled returns the IRI that has the label of iri.
func labelled(iri string) string {
	for _, s := range sites {
		if rest, ok := strings.CutPrefix(iri, s.labels[0]); ok && s.labels[0] != "" {
			return s.labels[1] + rest
		}
	}
	return iri
}
