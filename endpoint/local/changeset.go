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
// up to four N-Triples files, each plain or .gz. An absent file has no path.
// They are applied in the order of the fields.
type Changeset struct {
	Name       string // "2015/11/16/16/000011": year, month, day, hour (UTC), number
	Clear      string // every triple of each subject in this file is removed
	Removed    string
	Added      string
	Reinserted string
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
				found[m[1]] = &Changeset{Name: m[1]}
			}
			*found[m[1]].part(m[2]) = filepath.Join(dir, filepath.FromSlash(path))
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

func (c *Changeset) part(name string) *string {
	switch name {
	case "clear":
		return &c.Clear
	case "removed":
		return &c.Removed
	case "added":
		return &c.Added
	}
	return &c.Reinserted
}

// Patch is the content of a changeset's files.
type Patch struct {
	cleared []string // subjects, each once
	removed []triple
	added   []triple

	Bad       []BadLine
	Truncated []string // files that are cut off
}

// Read reads the changeset's files.
func (c Changeset) Read() (Patch, error) {
	var p Patch
	clear, err := p.read(c.Clear)
	if err != nil {
		return p, fmt.Errorf("changeset %s: %w", c.Name, err)
	}
	seen := map[string]bool{}
	for _, t := range p.named(c.Clear, clear) {
		if !seen[t.subject] {
			seen[t.subject] = true
			p.cleared = append(p.cleared, t.subject)
		}
	}
	removed, err := p.read(c.Removed)
	if err != nil {
		return p, fmt.Errorf("changeset %s: %w", c.Name, err)
	}
	p.removed = p.named(c.Removed, removed)
	for _, path := range []string{c.Added, c.Reinserted} {
		added, err := p.read(path)
		if err != nil {
			return p, fmt.Errorf("changeset %s: %w", c.Name, err)
		}
		p.added = append(p.added, added...)
	}
	return p, nil
}

func (p *Patch) read(path string) ([]triple, error) {
	if path == "" {
		return nil, nil
	}
	triples, bad, truncated, err := readTriples(path)
	p.Bad = append(p.Bad, bad...)
	if truncated {
		p.Truncated = append(p.Truncated, path)
	}
	return triples, err
}

var errBlank = errors.New("a blank node cannot be named in order to remove it")

// named separates triples with blank nodes, which a removal could not match.
func (p *Patch) named(path string, triples []triple) []triple {
	return slices.DeleteFunc(triples, func(t triple) bool {
		if t.hasBlank() {
			p.Bad = append(p.Bad, BadLine{File: path, Text: shorten(t.String()), Err: errBlank})
		}
		return t.hasBlank()
	})
}

// Applied counts what Updates does.
func (p Patch) Applied() Applied {
	return Applied{
		Added: len(p.added), Removed: len(p.removed), Cleared: len(p.cleared),
		Skipped: len(p.Bad), Truncated: len(p.Truncated) > 0,
	}
}

// Updates returns the patch as SPARQL Update requests to be sent in order, each
// with at most maxTriples triples or subjects to clear (0: no limit), for a
// graph or, with "", the default graph. A blank node in two requests becomes
// two nodes.
func (p Patch) Updates(graph string, maxTriples int) []string {
	var requests []string
	for part := range chunks(p.cleared, maxTriples) {
		operations := make([]string, len(part))
		for n, subject := range part {
			operations[n] = "DELETE WHERE {" + inGraph(graph, subject+" ?p ?o") + "}"
		}
		requests = append(requests, strings.Join(operations, " ;\n"))
	}
	for part := range chunks(p.removed, maxTriples) {
		requests = append(requests, "DELETE DATA {"+inGraph(graph, block(part))+"}")
	}
	for part := range chunks(p.added, maxTriples) {
		data := inGraph(graph, block(part))
		if slices.ContainsFunc(part, triple.hasBlank) { // Virtuoso has none in data
			requests = append(requests, "INSERT {"+data+"} WHERE {}")
		} else {
			requests = append(requests, "INSERT DATA {"+data+"}")
		}
	}
	return requests
}

func chunks[T any](list []T, most int) func(func([]T) bool) {
	if most <= 0 {
		most = max(len(list), 1)
	}
	return slices.Chunk(list, most)
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

// Updates is Read and Patch.Updates in one.
func (c Changeset) Updates(graph string, maxTriples int) ([]string, Applied, error) {
	p, err := c.Read()
	if err != nil {
		return nil, Applied{}, err
	}
	return p.Updates(graph, maxTriples), p.Applied(), nil
}

// atomicTriples is the maximum number of triples in one update. With more the
// engine's parser needs too much memory.
const atomicTriples = 100_000

// Apply applies the changeset to the default graph of an engine. It takes one
// update unless the changeset is very large, so that no query sees half of it.
// Invalid triples are logged and skipped.
func (c Changeset) Apply(ctx context.Context, e *Engine) (Applied, error) {
	p, err := c.Read()
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

func (p Patch) requests() []string {
	whole := len(p.cleared)+len(p.removed)+len(p.added) <= atomicTriples
	if !whole {
		return p.Updates("", atomicTriples)
	}
	if operations := p.Updates("", 0); len(operations) > 0 {
		return []string{strings.Join(operations, " ;\n")}
	}
	return nil
}

func (e *Engine) updateAll(ctx context.Context, requests []string) error {
	for _, text := range requests {
		if err := e.update(ctx, text, true); err != nil { // data and plain patterns only
			return err
		}
	}
	return nil
}

func (p Patch) log(c Changeset, e *Engine) {
	for _, b := range p.Bad {
		e.log.Warn("triple skipped", "changeset", c.Name, "file", filepath.Base(b.File), "line", b.Line, "text", b.Text, "err", b.Err)
	}
	for _, path := range p.Truncated {
		e.log.Warn("file is cut off, its complete lines are used", "changeset", c.Name, "file", filepath.Base(path))
	}
}

// dropRefused removes the triples that the engine refuses. There are few such changesets, so each
// triple is tried by itself.
func (p *Patch) dropRefused(ctx context.Context, e *Engine) (err error) {
	refused := func(t triple) bool {
		// A query parses its template without executing anything.
		_, failed := e.Query(ctx, "CONSTRUCT {"+t.String()+"} WHERE { FILTER (false) }", "nt", nil, nil)
		if !errors.Is(failed, ErrSyntax) {
			err = errors.Join(err, failed)
			return false
		}
		p.Bad = append(p.Bad, BadLine{Text: shorten(t.String()), Err: failed})
		return true
	}
	p.cleared = slices.DeleteFunc(p.cleared, func(s string) bool {
		return refused(triple{s, "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", `""`})
	})
	p.removed, p.added = slices.DeleteFunc(p.removed, refused), slices.DeleteFunc(p.added, refused)
	return err
}
