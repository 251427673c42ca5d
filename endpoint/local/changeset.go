package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Changeset is one step of a dataset's history in the layout of DBpedia Live:
// up to four N-Triples files, each plain or .gz. They are applied in the order
// clear (every triple of each subject in it is removed), removed, added, reinserted.
type Changeset struct {
	Name  string            // "2015/11/16/16/000011": year, month, day, hour (UTC), number
	Files map[string]string // paths by part, without those that do not exist
}

// Applied counts what a changeset requested. A triple to remove that did not
// exist counts too.
type Applied struct {
	Added     int  // triples, reinserted ones included
	Removed   int  // triples
	Cleared   int  // subjects
	Skipped   int  // lines that are not triples or that the engine refuses
	Truncated bool // a file was cut off; its complete lines were applied
}

var changesetFile = regexp.MustCompile(`^(\d{4}/\d\d/\d\d/\d\d/\d{6})\.(clear|removed|added|reinserted)\.nt(\.gz)?$`)

// Changesets lists the changesets below dir, which may be a link, in the order
// of their names, in which they are to be applied. Other files are ignored.
func Changesets(dir string) ([]Changeset, error) {
	found := map[string]*Changeset{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if m := changesetFile.FindStringSubmatch(path); m != nil {
			if found[m[1]] == nil {
				found[m[1]] = &Changeset{Name: m[1], Files: map[string]string{}}
			}
			found[m[1]].Files[m[2]] = filepath.Join(dir, filepath.FromSlash(path))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list changesets below %s: %w", dir, err)
	}
	list := make([]Changeset, 0, len(found))
	for _, c := range found {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Changeset) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// A patch is the content of a changeset's files.
type patch struct {
	cleared []string // subjects, each once
	removed []triple
	added   []triple

	bad       []badLine
	truncated []string // files that are cut off
}

// read reads the changeset's files.
func (c Changeset) read() (p patch, err error) {
	read := func(part string) []triple {
		path := c.Files[part]
		if path == "" || err != nil {
			return nil
		}
		list, bad, truncated, failed := readTriples(path)
		if p.bad = append(p.bad, bad...); truncated {
			p.truncated = append(p.truncated, path)
		}
		if failed != nil {
			err = fmt.Errorf("changeset %s: %w", c.Name, failed)
		}
		return list
	}
	seen := map[string]bool{}
	for _, t := range p.named(c.Files["clear"], read("clear")) {
		if !seen[t.subject] {
			seen[t.subject] = true
			p.cleared = append(p.cleared, t.subject)
		}
	}
	p.removed = p.named(c.Files["removed"], read("removed"))
	p.added = append(read("added"), read("reinserted")...)
	return p, err
}

var errBlank = errors.New("a blank node cannot be named in order to remove it")

// named separates triples with blank nodes, which a removal could not match.
func (p *patch) named(path string, triples []triple) []triple {
	return slices.DeleteFunc(triples, func(t triple) bool {
		if t.hasBlank() {
			p.bad = append(p.bad, badLine{file: path, text: shorten(t.String()), err: errBlank})
		}
		return t.hasBlank()
	})
}

// Applied counts what the updates do.
func (p patch) Applied() Applied {
	return Applied{
		Added: len(p.added), Removed: len(p.removed), Cleared: len(p.cleared),
		Skipped: len(p.bad), Truncated: len(p.truncated) > 0,
	}
}

// updates returns the patch as SPARQL Update requests to be sent in order, each
// with at most maxTriples triples or subjects to clear, for a
// graph or, with "", the default graph. A blank node in two requests becomes
// two nodes.
func (p patch) updates(graph string, maxTriples int) []string {
	var requests []string
	for part := range slices.Chunk(p.cleared, maxTriples) {
		operations := make([]string, len(part))
		for n, subject := range part {
			operations[n] = "DELETE WHERE {" + inGraph(graph, subject+" ?p ?o") + "}"
		}
		requests = append(requests, strings.Join(operations, " ;\n"))
	}
	for part := range slices.Chunk(p.removed, maxTriples) {
		requests = append(requests, "DELETE DATA {"+inGraph(graph, block(part))+"}")
	}
	for part := range slices.Chunk(p.added, maxTriples) {
		data := inGraph(graph, block(part))
		if slices.ContainsFunc(part, triple.hasBlank) { // Virtuoso has none in data
			requests = append(requests, "INSERT {"+data+"} WHERE {}")
		} else {
			requests = append(requests, "INSERT DATA {"+data+"}")
		}
	}
	return requests
}

func inGraph(graph, pattern string) string {
	if graph == "" {
		return pattern
	}
	return " GRAPH <" + graph + "> {" + pattern + "} "
}

func block(triples []triple) string {
	var b strings.Builder
	b.WriteByte('\n')
	for _, t := range triples {
		b.WriteString(t.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Updates returns the changeset as SPARQL Update requests to be sent in order, each with at most maxTriples
// triples or subjects to clear, for a graph or, with "", the default graph. A blank node in two requests becomes
// two nodes. What is no triple is left out.
func (c Changeset) Updates(graph string, maxTriples int) ([]string, error) {
	p, err := c.read()
	return p.updates(graph, maxTriples), err
}

// atomicTriples is the maximum number of triples in one update. With more the
// engine's parser needs too much memory.
const atomicTriples = 100_000

// Apply applies the changeset to the default graph of an engine. It takes one
// update unless the changeset is very large, so that no query sees half of it.
// Invalid triples are logged and skipped.
func (c Changeset) Apply(ctx context.Context, e *Engine) (Applied, error) {
	p, err := c.read()
	if err != nil {
		return Applied{}, err
	}
	requests := p.requests()
	err = e.updateAll(ctx, requests)
	if errors.Is(err, ErrSyntax) { // an IRI or a language tag that only the engine refuses
		if err = p.dropRefused(ctx, e); err == nil {
			err = e.updateAll(ctx, p.requests())
		}
	}
	p.log(c, e)
	if err != nil {
		return Applied{}, fmt.Errorf("changeset %s: %w", c.Name, err)
	}
	return p.Applied(), nil
}

func (p patch) requests() []string {
	list := p.updates("", atomicTriples)
	if len(list) > 0 && len(p.cleared)+len(p.removed)+len(p.added) <= atomicTriples {
		return []string{strings.Join(list, " ;\n")}
	}
	return list
}

func (e *Engine) updateAll(ctx context.Context, requests []string) error {
	for _, text := range requests {
		if err := e.update(ctx, text, true); err != nil { // data and plain patterns only
			return err
		}
	}
	return nil
}

func (p patch) log(c Changeset, e *Engine) {
	for _, b := range p.bad {
		e.log.Warn("triple skipped", "changeset", c.Name, "file", filepath.Base(b.file), "line", b.line, "text", b.text, "err", b.err)
	}
	for _, path := range p.truncated {
		e.log.Warn("file is cut off, its complete lines are used", "changeset", c.Name, "file", filepath.Base(path))
	}
}

// dropRefused removes the triples that the engine refuses. There are few such changesets, so each
// triple is tried by itself.
func (p *patch) dropRefused(ctx context.Context, e *Engine) (err error) {
	refused := func(t triple) bool {
		// A query parses its template without executing anything.
		_, failed := e.Query(ctx, "CONSTRUCT {"+t.String()+"} WHERE { FILTER (false) }", "nt", nil, nil)
		if !errors.Is(failed, ErrSyntax) {
			err = errors.Join(err, failed)
			return false
		}
		p.bad = append(p.bad, badLine{text: shorten(t.String()), err: failed})
		return true
	}
	p.cleared = slices.DeleteFunc(p.cleared, func(s string) bool {
		return refused(triple{s, "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", `""`})
	})
	p.removed, p.added = slices.DeleteFunc(p.removed, refused), slices.DeleteFunc(p.added, refused)
	return err
}
