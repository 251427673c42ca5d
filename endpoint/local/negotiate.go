package local

import "github.com/freshet/freshet/registry/accept"

// representation is a format in which a result can be sent.
type representation struct {
	mediaTypes []string // as in Accept: the one that is sent, and its aliases
	format     string   // the engine's name for it
}

// The order is the server's preference for clients without one.
var (
	rowTypes = []representation{
		{[]string{"application/sparql-results+json", "application/json", "application/sparql-results"}, "json"},
		{[]string{"application/sparql-results+xml", "application/xml", "text/xml"}, "xml"},
		{[]string{"text/csv"}, "csv"},
		{[]string{"text/tab-separated-values"}, "tsv"},
	}
	graphTypes = []representation{
		{[]string{"application/n-triples", "text/ntriples", "text/plain"}, "nt"},
		{[]string{"text/turtle", "application/x-turtle", "text/n3", "text/rdf+n3"}, "ttl"},
		{[]string{"application/rdf+xml"}, "rdf"},
	}
)

// negotiate returns the representation that the Accept header values prefer. It returns false if none is acceptable.
func negotiate(values []string, offered []representation) (representation, bool) {
	offers := make([][]string, len(offered))
	for i, o := range offered {
		offers[i] = o.mediaTypes
	}
	i := accept.Choose(values, offers...)
	if i < 0 {
		return representation{}, false
	}
	return offered[i], true
}
