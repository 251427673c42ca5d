// Package pack holds settings for well-known public endpoints.
//
// A pack is a file in data: the settings that differ from the defaults, what else a user
// should know, and for each the page that says so. A setting without such a page is a
// conservative choice, and its source says that.
package pack

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

// A Pack proposes settings for an endpoint.
type Pack struct {
	Name     string    `json:"name" yaml:"-"`
	Title    string    `json:"title" yaml:"title"`
	Contact  Note      `json:"contact" yaml:"contact"` // whether requests must name a contact
	Settings []Setting `json:"settings" yaml:"settings"`
	Quirks   []Note    `json:"quirks" yaml:"quirks"`
	Prefixes *Prefixes `json:"prefixes,omitempty" yaml:"prefixes"`
	Aliases  []Note    `json:"-" yaml:"aliases"` // other URLs of the endpoint
	Rates    []Rate    `json:"rates,omitempty" yaml:"rates"`
	places   []string  // all URLs of the endpoint, see place
}

// A Rate says how often the results of queries with the same template changed in executions elsewhere.
type Rate struct {
	Template   string  `json:"template" yaml:"template"` // as scheduler.TemplateText writes it
	Changes    uint64  `json:"changes" yaml:"changes"`
	Executions uint64  `json:"executions" yaml:"executions"`
	Days       float64 `json:"days" yaml:"days"` // in which they were executed, the sum over the queries
	Source     string  `json:"source" yaml:"source"`
}

// Prefixes are those that queries of an endpoint need not declare.
type Prefixes struct {
	Names  map[string]string `json:"names" yaml:"names"` // IRIs by names such as "wd:"
	Source string            `json:"source" yaml:"source"`
	SameAs string            `json:"-" yaml:"same_as"` // a pack whose prefixes it has as well
}

// A Setting is a value of a setting of registry.Endpoint.
type Setting struct {
	Name   string `json:"name" yaml:"name"`
	Value  any    `json:"value" yaml:"value"`
	Source string `json:"source" yaml:"source"`
}

// A Note is a sentence about an endpoint.
type Note struct {
	Text   string `json:"text" yaml:"text"`
	Source string `json:"source" yaml:"source"`
}

//go:embed data/*.yaml
var files embed.FS

// All returns the packs by name.
var All = sync.OnceValue(func() (list []Pack) {
	entries, err := files.ReadDir("data")
	if err != nil {
		panic(err) // the files are part of the program
	}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("data", e.Name()))
		if err != nil {
			panic(err)
		}
		p, err := parse(strings.TrimSuffix(e.Name(), ".yaml"), text)
		if err != nil {
			panic(err)
		}
		list = append(list, p)
	}
	share(list)
	slices.SortFunc(list, func(a, b Pack) int { return strings.Compare(a.Name, b.Name) })
	return list
})

// share gives packs the prefixes of those that they name.
func share(list []Pack) {
	for _, p := range list {
		if p.Prefixes == nil || p.Prefixes.SameAs == "" {
			continue
		}
		all := map[string]string{}
		for _, other := range list {
			if other.Name == p.Prefixes.SameAs {
				maps.Copy(all, other.Prefixes.Names)
			}
		}
		maps.Copy(all, p.Prefixes.Names)
		p.Prefixes.Names = all
	}
}

func parse(name string, text []byte) (Pack, error) {
	p := Pack{Name: name}
	if err := yaml.UnmarshalWithOptions(text, &p, yaml.Strict()); err != nil {
		return p, fmt.Errorf("pack %s: %w", name, err)
	}
	for _, s := range p.Settings {
		if s.Name == "url" {
			p.places = append(p.places, place(fmt.Sprint(s.Value)))
		}
	}
	for _, alias := range p.Aliases {
		p.places = append(p.places, place(alias.Text))
	}
	return p, nil
}

// Names lists the names of the packs.
func Names() []string {
	var names []string
	for _, p := range All() {
		names = append(names, p.Name)
	}
	return names
}

// Find returns a pack. The error is a *registry.Problem.
func Find(name string) (Pack, error) {
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
	}
	detail := fmt.Sprintf("there is no pack %q; there are %s", name, strings.Join(Names(), ", "))
	return Pack{}, &registry.Problem{Kind: registry.KindBadEndpoint, Detail: detail,
		Errors: []registry.FieldError{{Pointer: "/pack", Detail: detail}}}
}

// Of returns the pack of an endpoint, by its name or its URL.
func Of(name, url string) (Pack, bool) {
	at := place(url)
	for _, p := range All() {
		if p.Name == name || slices.Contains(p.places, at) {
			return p, true
		}
	}
	return Pack{}, false
}

// Has reports whether a URL leads to the endpoint of p.
func (p Pack) Has(url string) bool { return slices.Contains(p.places, place(url)) }

// Same reports whether two URLs lead to the same endpoint.
func Same(a, b string) bool { return a != "" && place(a) == place(b) }

// place names an endpoint by its URL, which links write with either scheme, and with or without the default port and a
// slash at the end.
func place(text string) string {
	u, err := url.Parse(registry.CanonicalURL(text))
	if err != nil {
		return text
	}
	u.Scheme, u.Path = "", strings.TrimRight(u.Path, "/")
	return u.String()
}

// Declare adds the declarations of the endpoint's own prefixes to a query that uses them.
func (p Pack) Declare(text string) string {
	if p.Prefixes == nil {
		return text
	}
	return sparql.Declare(text, p.Prefixes.Names)
}

// Learnt returns what p says about the changes of queries with a template, nil if it says nothing. text is
// called only if p has rates.
func (p Pack) Learnt(text func() string) *registry.Learnt {
	if len(p.Rates) == 0 {
		return nil
	}
	template := text()
	for _, r := range p.Rates {
		if r.Template == template {
			return &registry.Learnt{Changes: r.Changes, Executions: r.Executions, Days: r.Days, Source: r.Source}
		}
	}
	return nil
}

// Values returns the settings of p by name, and the name. Values in given replace them. At another URL, which may have other
// data, the feed of p tells nothing.
func (p Pack) Values(given map[string]any) map[string]any {
	out := map[string]any{"name": p.Name}
	for _, s := range p.Settings {
		out[s.Name] = s.Value
	}
	if url, other := given["url"].(string); other && !p.Has(url) {
		for _, name := range []string{"feed", "position", "lag"} {
			delete(out, name)
		}
	}
	maps.Copy(out, given)
	return out
}

// Endpoint returns an endpoint with the settings of p.
func (p Pack) Endpoint() (e registry.Endpoint, err error) {
	for _, s := range p.Settings {
		if !slices.Contains(registry.Settings(), s.Name) {
			return e, fmt.Errorf("pack %s: there is no setting %s", p.Name, s.Name)
		}
	}
	b, err := json.Marshal(p.Values(nil))
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	return e, err
}
