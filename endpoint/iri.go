package endpoint

import "strings"

// resolve gives the absolute IRI that ref stands for (RFC 3986, section 5.2).
// net/url is not used because it rewrites what it reads, and an IRI that is
// written differently is another IRI.
func resolve(base, ref string) (string, error) {
	if scheme(ref) != "" {
		return ref, nil
	}
	s := scheme(base)
	if s == "" {
		return "", malformed("relative IRI %q without a base", bounded(oneLine(ref)))
	}
	rest := base[len(s)+1:]
	authority := ""
	if strings.HasPrefix(rest, "//") {
		n := strings.IndexAny(rest[2:], "/?#")
		if n < 0 {
			n = len(rest) - 2
		}
		authority, rest = rest[:n+2], rest[n+2:]
	}
	path, query := upTo(rest, "#"), ""
	if i := strings.IndexByte(path, '?'); i >= 0 {
		path, query = path[:i], path[i:]
	}
	switch {
	case strings.HasPrefix(ref, "//"):
		return s + ":" + ref, nil
	case ref == "" || ref[0] == '#':
		return s + ":" + authority + path + query + ref, nil
	case ref[0] == '?':
		return s + ":" + authority + path + ref, nil
	}
	refPath := upTo(ref, "?#")
	tail := ref[len(refPath):]
	if refPath[0] != '/' {
		refPath = path[:strings.LastIndexByte(path, '/')+1] + refPath
		if authority != "" && refPath[0] != '/' {
			refPath = "/" + refPath
		}
	}
	return s + ":" + authority + withoutDots(refPath) + tail, nil
}

// scheme is the scheme of an absolute IRI, "" for a relative one.
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
