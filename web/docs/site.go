package docs

// This file reads the pages, puts them in order and searches them.

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
)

// A Site is all pages of the documentation.
type Site struct {
	Index  *Page   // index.md
	Groups []Group // the pages in the order of the index
	pages  map[string]*Page
}

// A Group is the pages below one heading of the index.
type Group struct {
	Title string // "" for the pages that the index does not list
	Pages []*Page
}

// A Page is one rendered file.
type Page struct {
	Name  string // the file's name without .md
	Title string // its first heading
	HTML  template.HTML

	sections []section
	links    []string // destinations of links and pictures, as they are written
}

// A section is a heading and the text up to the next one. IDs are those of the
// rendered headings.
type section struct {
	heading, id, text string
	level             int
}

// Contents returns links to the headings of the second level.
func (p *Page) Contents() (links []Hit) {
	for _, x := range p.sections {
		if x.level == 2 {
			links = append(links, Hit{Heading: x.heading, Link: "#" + x.id})
		}
	}
	return links
}

// Path returns the page's address on a server.
func (p *Page) Path() string {
	if p.Name == "index" {
		return "/docs"
	}
	return "/docs/" + p.Name
}

// Open reads and renders all pages once. An error means that a page has no heading.
var Open = sync.OnceValues(func() (*Site, error) { return read(files) })

func read(dir fs.FS) (*Site, error) {
	names, err := fs.Glob(dir, "*.md")
	if err != nil {
		return nil, err
	}
	s := &Site{pages: map[string]*Page{}}
	for _, file := range names {
		text, err := fs.ReadFile(dir, file)
		if err != nil {
			return nil, err
		}
		p, err := render(strings.TrimSuffix(file, ".md"), text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.pages[p.Name] = p
	}
	if s.Index = s.pages["index"]; s.Index == nil {
		return nil, fmt.Errorf("there is no index.md")
	}
	text, err := fs.ReadFile(dir, "index.md")
	if err != nil {
		return nil, err
	}
	s.arrange(text)
	return s, nil
}

// arrange fills in the groups: a heading of the second level begins one, and links to
// pages fill it.
func (s *Site) arrange(index []byte) {
	listed := map[string]bool{"index": true}
	_ = ast.Walk(parse(index), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				s.Groups = append(s.Groups, Group{Title: plain(n, index)})
			}
		case *ast.Link:
			name, isPage := strings.CutSuffix(string(n.Destination), ".md")
			if p := s.pages[name]; isPage && p != nil && !listed[name] && len(s.Groups) > 0 {
				g := &s.Groups[len(s.Groups)-1]
				g.Pages, listed[name] = append(g.Pages, p), true
			}
		}
		return ast.WalkContinue, nil
	})
	var rest []*Page
	for name, p := range s.pages {
		if !listed[name] {
			rest = append(rest, p)
		}
	}
	if len(rest) > 0 {
		slices.SortFunc(rest, func(a, b *Page) int { return strings.Compare(a.Title, b.Title) })
		s.Groups = append(s.Groups, Group{Pages: rest})
	}
}

// Page returns the page with a name, nil for none.
func (s *Site) Page(name string) *Page { return s.pages[name] }

// File returns a file of the documentation as it is in the tree.
func File(name string) ([]byte, error) { return files.ReadFile(name) }

// A Hit is a section that a search found.
type Hit struct {
	Page    *Page
	Heading string
	Link    string
	Excerpt string

	rank int // 0 for the best
}

const (
	mostHits   = 30
	mostOfPage = 5
	mostWords  = 8
	around     = 90 // bytes of an excerpt before and after the word
)

// Search returns the sections that contain all words, regardless of case. Sections
// whose headings contain them come first, and otherwise pages are in their order.
func (s *Site) Search(query string) (hits []Hit) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}
	words = words[:min(len(words), mostWords)]
	for _, g := range s.Groups {
		for _, p := range g.Pages {
			n := 0
			for _, x := range p.sections {
				rank, ok := x.match(p.Title, words)
				if !ok || n == mostOfPage {
					continue
				}
				n++
				link := p.Path()
				if x.id != "" {
					link += "#" + x.id
				}
				hits = append(hits, Hit{Page: p, Heading: x.heading, Link: link, Excerpt: excerpt(x.text, words), rank: rank})
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return a.rank - b.rank })
	return hits[:min(len(hits), mostHits)]
}

// match reports whether a section and the title of its page contain each word, at least
// one of them in the section. The rank is 0 if all are in the heading, 1 if some are only
// in the title, and 2 if some are only in the text.
func (x section) match(title string, words []string) (rank int, ok bool) {
	heading, text, title := strings.ToLower(x.heading), strings.ToLower(x.text), strings.ToLower(title)
	inSection := false
	for _, w := range words {
		switch inHeading := strings.Contains(heading, w); {
		case inHeading:
			inSection = true
		case strings.Contains(title, w):
			rank = max(rank, 1)
			inSection = inSection || strings.Contains(text, w)
		case strings.Contains(text, w):
			rank, inSection = 2, true
		default:
			return 0, false
		}
	}
	return rank, inSection
}

// excerpt returns the text around the first of the words, cut between words.
func excerpt(text string, words []string) string {
	at := len(text)
	lower := strings.ToLower(text)
	for _, w := range words {
		if i := strings.Index(lower, w); i >= 0 {
			at = min(at, i)
		}
	}
	if at == len(text) || len(lower) != len(text) {
		at = 0
	}
	from, to := max(0, at-around), min(len(text), at+around)
	if from > 0 {
		from += strings.IndexByte(text[from:], ' ') + 1
	}
	if to < len(text) {
		to = cmp.Or(max(0, strings.LastIndexByte(text[:to], ' ')), to)
	}
	return strings.ToValidUTF8(strings.TrimSpace(text[min(from, to):to]), "")
}

// plain returns the text below a node.
func plain(n ast.Node, source []byte) string {
	var b bytes.Buffer
	write(&b, n, source)
	return strings.Join(strings.Fields(b.String()), " ")
}

func write(b *bytes.Buffer, n ast.Node, source []byte) {
	switch n := n.(type) {
	case *ast.Text:
		b.Write(n.Segment.Value(source))
		if n.SoftLineBreak() || n.HardLineBreak() {
			b.WriteByte(' ')
		}
		return
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		b.Write(n.Lines().Value(source))
		return
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		write(b, c, source)
		if c.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
	}
}
