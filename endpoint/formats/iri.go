package formats

import (
	"fmt"
	"strings"

	"github.com/freshet/freshet/diff"
)

// An iriBase is a parsed base IRI. It is parsed once because a base may be long
// and have many references.
type iriBase struct {
	start string // scheme, colon and authority
	owned bool   // it has an authority
	path  string
	dir   string // of the path
	query string
}

// baseOf parses an absolute IRI.
func baseOf(iri string) *iriBase {
	b := &iriBase{}
	rest := iri[len(scheme(iri))+1:]
	if b.owned = strings.HasPrefix(rest, "//"); b.owned {
		n := strings.IndexAny(rest[2:], "/?#")
		if n < 0 {
			n = len(rest) - 2
		}
		rest = rest[n+2:]
	}
	b.start = iri[:len(iri)-len(rest)]
	b.path = upTo(rest, "#")
	if i := strings.IndexByte(b.path, '?'); i >= 0 {
		b.path, b.query = b.path[:i], b.path[i:]
	}
	b.dir = b.path[:strings.LastIndexByte(b.path, '/')+1]
	return b
}

// An expansion resolves the relative IRIs of one document and bounds their
// total length: a few bytes may expand to the length of the base.
type expansion struct{ limit, done int }

// resolve returns the absolute IRI of ref (RFC 3986, section 5.2). net/url is
// not used because it rewrites what it reads, and an IRI with another spelling
// is another IRI. base is nil if there is none.
func (x *expansion) resolve(base *iriBase, ref string) (string, error) {
	if scheme(ref) != "" {
		return ref, nil
	}
	if base == nil {
		return "", malformed("relative IRI %q without a base", Bounded(OneLine(ref)))
	}
	if x.done += len(base.start) + len(base.path) + len(base.query) + len(ref); x.limit > 0 && x.done > x.limit {
		return "", fmt.Errorf("%w: its relative IRIs expand to more than %d bytes", diff.ErrByteLimit, x.limit)
	}
	switch {
	case strings.HasPrefix(ref, "//"):
		return base.start[:strings.IndexByte(base.start, ':')+1] + ref, nil
	case ref == "" || ref[0] == '#':
		return base.start + base.path + base.query + ref, nil
	case ref[0] == '?':
		return base.start + base.path + ref, nil
	}
	refPath := upTo(ref, "?#")
	tail := ref[len(refPath):]
	if refPath[0] != '/' {
		refPath = base.dir + refPath
		if base.owned && refPath[0] != '/' {
			refPath = "/" + refPath
		}
	}
	return base.start + withoutDots(refPath) + tail, nil
}

// scheme is the scheme of an absolute IRI; "" for a relative one.
func scheme(iri string) string {
	for i := range len(iri) {
		switch c := iri[i]; {
		case c == ':' && i > 0:
			return iri[:i]
		case isLetter(c), i > 0 && (digit(c) || c == '+' || c == '-' || c == '.'):
		default:
			return ""
		}
	}
	return ""
}

func upTo(s, chars string) string {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i]
	}
	return s
}

// withoutDots removes the segments . and .. from a path.
func withoutDots(path string) string {
	if !strings.Contains(path, "/.") && !strings.HasPrefix(path, ".") {
		return path
	}
	var out []string
	segments := strings.Split(path, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".", "..":
			if s == ".." && len(out) > 0 && (len(out) > 1 || out[0] != "") {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return strings.Join(out, "/")
}
