package docs

// This file renders blocks of code, with colours.

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

const quoted = `(?P<s>"(?:[^"\\]|\\.)*"|'[^']*')`

// lexemes finds what is coloured in each language. The names of its groups are the classes
// of the style sheet: keywords, variables, strings and comments. Blocks of other languages
// are outputs.
var lexemes = map[string]*regexp.Regexp{
	"sh":    regexp.MustCompile(`(?m)(?P<c>(?:^|\s)#.*$)|` + quoted + `|(?P<v>\$\w+|\$\{\w+\}|\B--?[a-z][\w-]*)|(?P<k>^[a-z][\w./-]*)`),
	"yaml":  regexp.MustCompile(`(?m)(?P<c>(?:^|\s)#.*$)|` + quoted + `|(?P<k>[\w.]+:)(?:\s|$)`),
	"nginx": regexp.MustCompile(`(?m)(?P<c>(?:^|\s)#.*$)|` + quoted + `|(?P<v>\$\w+)|(?P<k>^\s*[a-z_]+)`),
	"python": regexp.MustCompile(`(?m)(?P<c>#.*$)|` + quoted + `|` +
		words("as async await class def elif else except False for from if import in None not return True try while with")),
	"js": regexp.MustCompile("(?m)(?P<c>//.*$)|(?P<s>`[^`]*`|\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*')|" +
		words("async await const else export for from function if import let new null of return throw true while")),
	"go": regexp.MustCompile("(?m)(?P<c>//.*$)|(?P<s>`[^`]*`|\"(?:[^\"\\\\]|\\\\.)*\")|" +
		words("case const defer else for func if import nil package range return struct switch type var")),
	"html": regexp.MustCompile(`(?P<c><!--[^>]*-->)|` + quoted + `|(?P<k></?[a-z][a-z0-9]*|>)`),
}

var nothing = regexp.MustCompile(`\z.`)

func words(list string) string {
	return `(?P<k>\b(?:` + strings.ReplaceAll(list, " ", "|") + `)\b)`
}

// colours is a renderer of blocks of code for goldmark.
type colours struct{}

func (colours) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, writeBlock)
}

// writeBlock wraps the lines of code. Outputs have columns: they scroll, and so take the focus.
func writeBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := n.(*ast.FencedCodeBlock).Language(source)
	kind, find := `class="code wrap"`, lexemes[string(language)]
	if find == nil {
		kind, find = `class="code" tabindex="0"`, nothing
	}
	_, err := fmt.Fprintf(w, "<pre %s><code class=\"language-%s\">%s</code></pre>\n",
		kind, template.HTMLEscapeString(string(language)), colour(find, n.Lines().Value(source)))
	return ast.WalkSkipChildren, err
}

// colour returns a text as HTML, with what find finds in spans.
func colour(find *regexp.Regexp, text []byte) template.HTML {
	var b bytes.Buffer
	at := 0
	for _, m := range find.FindAllSubmatchIndex(text, -1) {
		for i, class := range find.SubexpNames() {
			if class != "" && m[2*i] >= 0 {
				template.HTMLEscape(&b, text[at:m[2*i]])
				fmt.Fprintf(&b, `<span class="%s">`, class)
				template.HTMLEscape(&b, text[m[2*i]:m[2*i+1]])
				b.WriteString("</span>")
				at = m[2*i+1]
			}
		}
	}
	template.HTMLEscape(&b, text[at:])
	return template.HTML(b.String())
}
