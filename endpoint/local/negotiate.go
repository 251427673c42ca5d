package local

import (
	"mime"
	"strconv"
	"strings"
)

// representation is a format in which a result can be sent.
type representation struct {
	mediaType string // as in Accept
	format    string // the engine's name for it
}

// The order is the server's preference for clients without one.
var (
	rowTypes = []representation{
		{"application/sparql-results+json", "json"},
		{"application/sparql-results+xml", "xml"},
		{"text/csv", "csv"},
		{"text/tab-separated-values", "tsv"},
	}
	graphTypes = []representation{
		{"application/n-triples", "nt"},
		{"text/turtle", "ttl"},
		{"application/rdf+xml", "rdf"},
	}
)

// alias maps requested media types to those that are sent.
var alias = map[string]string{
	"application/json":           "application/sparql-results+json",
	"application/xml":            "application/sparql-results+xml",
	"text/xml":                   "application/sparql-results+xml",
	"application/x-turtle":       "text/turtle",
	"text/n3":                    "text/turtle",
	"text/rdf+n3":                "text/turtle",
	"text/ntriples":              "application/n-triples",
	"text/plain":                 "application/n-triples",
	"application/sparql-results": "application/sparql-results+json",
}

// negotiate returns the representation that the Accept header values prefer, by
// RFC 9110: the most specific range that matches a type determines its quality.
// It returns false if none is acceptable.
func negotiate(accept []string, offered []representation) (representation, bool) {
	ranges := acceptRanges(accept)
	if len(ranges) == 0 {
		return offered[0], true
	}
	best, quality := representation{}, 0.0
	for _, o := range offered {
		if q := qualityOf(o.mediaType, ranges); q > quality {
			best, quality = o, q
		}
	}
	return best, quality > 0
}

type acceptRange struct {
	pattern string
	quality float64
}

func acceptRanges(accept []string) []acceptRange {
	var ranges []acceptRange
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		pattern, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue // a malformed range is ignored
		}
		r := acceptRange{pattern: pattern, quality: 1}
		if q, given := params["q"]; given {
			if r.quality, err = strconv.ParseFloat(q, 64); err != nil || r.quality < 0 || r.quality > 1 {
				continue
			}
		}
		ranges = append(ranges, r)
	}
	return ranges
}

func qualityOf(mediaType string, ranges []acceptRange) float64 {
	quality, specific := 0.0, 0
	for _, r := range ranges {
		if s := matches(r.pattern, mediaType); s > specific {
			quality, specific = r.quality, s
		} else if s == specific && s > 0 {
			quality = max(quality, r.quality)
		}
	}
	return quality
}

// matches is 0 for no match, and more the more specific the match is.
func matches(pattern, mediaType string) int {
	family, _, _ := strings.Cut(mediaType, "/")
	switch pattern {
	case mediaType:
		return 4
	case "*/*":
		return 1
	case family + "/*":
		return 2
	}
	if alias[pattern] == mediaType {
		return 3
	}
	return 0
}
