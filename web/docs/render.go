package docs

// This file renders Markdown as the part of a page below its frame.

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Raw HTML is left out of the pages, and tables are the only extension.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(colours{}, 1))))

func parse(source []byte) ast.Node {
	return markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
}

// comments are for tests, and not for readers.
var comments = regexp.MustCompile(`(?s)<!--.*?-->\n?`)

func render(name string, source []byte) (*Page, error) {
	source = comments.ReplaceAll(source, nil)
	doc := parse(source)
	p := &Page{Name: name}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		switch {
		case ok:
			id, _ := h.AttributeString("id")
			p.sections = append(p.sections, section{heading: plain(h, source), id: string(id.([]byte)), level: h.Level})
		case len(p.sections) == 0:
			return nil, errors.New("the page does not begin with a heading")
		default:
			x := &p.sections[len(p.sections)-1]
			x.text = strings.TrimSpace(x.text + " " + plain(n, source))
		}
	}
	if len(p.sections) == 0 {
		return nil, errors.New("the page is empty")
	}
	p.Title, p.sections[0].id = p.sections[0].heading, ""
	if err := p.link(doc); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, doc); err != nil {
		return nil, err
	}
	p.HTML = template.HTML(framed.Replace(b.String()))
	return p, nil
}

// framed adds what Markdown has no words for. Its patterns occur in tags only, because
// text is escaped. On narrow screens wide tables become lists, and their roles keep
// them tables for screen readers.
var framed = strings.NewReplacer(
	"<table>", `<table class="tbl" role="table">`, "<thead>", `<thead role="rowgroup">`, "<tbody>", `<tbody role="rowgroup">`,
	"<tr>", `<tr role="row">`,
	"<th></th>", `<td role="cell"></td>`, "<th>", `<th scope="col" role="columnheader">`, "<td>", `<td role="cell">`)

// link replaces the links of a page by addresses on the server.
func (p *Page) link(doc ast.Node) error {
	return ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var to *[]byte
		switch n := n.(type) {
		case *ast.Link:
			to = &n.Destination
		case *ast.Image:
			to = &n.Destination
			width, height, err := size(string(*to))
			if err != nil {
				return ast.WalkStop, err
			}
			n.SetAttributeString("width", width)
			n.SetAttributeString("height", height)
		default:
			return ast.WalkContinue, nil
		}
		p.links = append(p.links, string(*to))
		address, err := served(string(*to))
		*to = []byte(address)
		return ast.WalkContinue, err
	})
}

// size returns the width and the height of a picture. With them a page keeps room for a
// picture that has not arrived, and does not move later.
func size(picture string) (width, height string, err error) {
	b, err := files.ReadFile(picture)
	if err != nil {
		return "", "", err
	}
	var svg struct {
		ViewBox string `xml:"viewBox,attr"`
	}
	if err := xml.Unmarshal(b, &svg); err != nil {
		return "", "", fmt.Errorf("%s: %w", picture, err)
	}
	if n, err := fmt.Sscan(svg.ViewBox, new(string), new(string), &width, &height); n != 4 {
		return "", "", fmt.Errorf("%s needs a viewBox of four numbers: %w", picture, err)
	}
	return width, height, nil
}

// served returns the address on a server of a link in a file.
func served(link string) (string, error) {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "" && u.Host != "", u.Path == "":
		return link, nil
	case u.Host != "" || strings.Contains(u.Path, "/"):
		return "", fmt.Errorf("%s is outside the documentation: servers cannot show it", link)
	}
	name, isPage := strings.CutSuffix(u.Path, ".md")
	switch {
	case isPage:
		u.Path = (&Page{Name: name}).Path()
	case strings.HasSuffix(u.Path, ".yaml"):
		u.Path = "/v1/" + u.Path
	default:
		u.Path = "/docs/files/" + u.Path
	}
	return u.String(), nil
}

// anchors makes the ids of headings in the way of GitHub, so that the same links work in
// the tree and on a server.
type anchors map[string]bool

func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(string(heading))) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			b.WriteRune(r)
		}
	}
	id := b.String()
	for i := 1; a[id]; i++ {
		id = fmt.Sprintf("%s-%d", b.String(), i)
	}
	a[id] = true
	return []byte(id)
}

// Put is called for ids that are written into a file. There is no syntax for it.
func (a anchors) Put(id []byte) { a[string(id)] = true }
