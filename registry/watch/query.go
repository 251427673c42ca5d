package watch

import (
	"regexp"
	"strings"
)

// Query returns the canonical text of a normalised watch. The same watch always has the
// same text.
func (w Watch) Query() string {
	entity := "<" + w.IRI + ">"
	switch w.Kind {
	case ByQuery:
		return w.Text
	case Instances:
		return "SELECT ?instance WHERE { ?instance <" + w.Properties[0] + "> " + entity + " }"
	case Members:
		return "SELECT ?member WHERE { ?member <" + w.Properties[0] + "> " + entity + " }"
	}
	before, after := "", ""
	if len(w.Properties) > 0 {
		before = "VALUES ?property { <" + strings.Join(w.Properties, "> <") + "> } "
	} else if w.Within != "" {
		after = ` FILTER(STRSTARTS(STR(?property), "` + w.Within + `"))`
	}
	out, in := entity+" ?property ?value", "?subject ?property "+entity
	switch w.Direction {
	case Incoming:
		return "SELECT ?property ?subject WHERE { " + before + in + after + " }"
	case Both:
		return "SELECT ?property ?value ?subject WHERE { " + before + "{ " + out + " } UNION { " + in + " }" + after + " }"
	}
	return "SELECT ?property ?value WHERE { " + before + out + after + " }"
}

// The normal forms of the texts of Query.
const (
	before = `(?:VALUES \?property \{ (?P<properties>(?:<[^<> ]+> )+)\} )?`
	after  = `(?: FILTER \( STRSTARTS \( STR \( \?property \) , "(?P<within>[^" ]+)" \) \))?`
	thing  = `<(?P<iri>[^<> ]+)>`
)

var normals = []struct {
	kind      Kind
	direction string
	text      *regexp.Regexp
}{
	{Entity, Outgoing, regexp.MustCompile(`^SELECT \?property \?value WHERE \{ ` + before + thing + ` \?property \?value` + after + ` \}$`)},
	{Entity, Incoming, regexp.MustCompile(`^SELECT \?property \?subject WHERE \{ ` + before + `\?subject \?property ` + thing +
		after + ` \}$`)},
	{Entity, Both, regexp.MustCompile(`^SELECT \?property \?value \?subject WHERE \{ ` + before + `\{ ` + thing +
		` \?property \?value \} UNION \{ \?subject \?property <(?P<same>[^<> ]+)> \}` + after + ` \}$`)},
	{Instances, "", regexp.MustCompile(`^SELECT \?instance WHERE \{ \?instance (?P<properties><[^<> ]+> )` + thing + ` \}$`)},
	{Members, "", regexp.MustCompile(`^SELECT \?member WHERE \{ \?member (?P<properties><[^<> ]+> )` + thing + ` \}$`)},
}

// parse returns the watch whose query has a normal form.
func parse(normal string) (Watch, bool) {
	for _, n := range normals {
		m := n.text.FindStringSubmatch(normal)
		if m == nil {
			continue
		}
		part := func(name string) string {
			if i := n.text.SubexpIndex(name); i >= 0 {
				return m[i]
			}
			return ""
		}
		w := Watch{Kind: n.kind, Direction: n.direction, IRI: part("iri"), Within: part("within")}
		for _, p := range strings.Fields(part("properties")) {
			w.Properties = append(w.Properties, strings.Trim(p, "<>"))
		}
		return w, n.direction != Both || part("same") == w.IRI
	}
	return Watch{}, false
}
