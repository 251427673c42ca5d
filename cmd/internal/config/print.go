package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/freshet/freshet/registry"
)

// SetEndpoints replaces the endpoints of c by those of a running server. from returns
// the sources of an endpoint's settings.
func (c *Config) SetEndpoints(all []registry.Endpoint, from func(endpoint string) map[string]registry.Source) {
	o := Sources{}
	for key, source := range c.Sources {
		if !strings.HasPrefix(key, "endpoints.") {
			o[key] = source
		}
	}
	for _, e := range all {
		for setting, s := range from(e.Name) {
			if s.From != registry.FromDefault {
				o["endpoints."+e.Name+"."+setting] = s.String()
			}
		}
	}
	c.Endpoints, c.Sources = all, o
}

// Printed returns the configuration with the source of each value that is no default
// as a remark. of is the server whose endpoints are shown, "" for those of the file.
func (c *Config) Printed(of string) string {
	head := "# What the configuration file, the environment and the flags say; what has no\n" +
		"# remark is a default. Endpoints may have been changed since at the running\n" +
		"# server: --server URL shows what is in force there.\n"
	if of != "" {
		head = "# The endpoints are those in force at " + of + ".\n" +
			"# The rest is what the configuration file, the environment and the flags say\n" +
			"# here; what has no remark is a default.\n"
	}
	return head + remarked(c.String(), c.Sources)
}

// remarked adds the sources of values to the lines of a document.
func remarked(text string, o Sources) string {
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return text
	}
	lines := strings.Split(text, "\n")
	var visit func(path string, n ast.Node)
	visit = func(path string, n ast.Node) {
		switch n := n.(type) {
		case *ast.MappingNode:
			for _, m := range n.Values {
				key := join(path, m.Key.GetToken().Value)
				from := o[key]
				if strings.HasPrefix(path, "tokens.") && m == n.Values[0] {
					from = o[path] // of a token as a whole
				}
				if from != "" {
					lines[m.Key.GetToken().Position.Line-1] += "  # " + from
				}
				visit(key, m.Value)
			}
		case *ast.SequenceNode:
			for _, x := range n.Values {
				if m, ok := x.(*ast.MappingNode); ok && m.Values[0].Key.GetToken().Value == "name" {
					visit(join(path, m.Values[0].Value.GetToken().Value), x)
				}
			}
		}
	}
	for _, d := range file.Docs {
		visit("", d.Body)
	}
	return strings.Join(lines, "\n")
}

// PrintedJSON is Printed as JSON, with the sources as a member.
func (c *Config) PrintedJSON() (json.RawMessage, error) {
	doc, err := yaml.YAMLToJSON([]byte(c.String()))
	if err != nil {
		return nil, err
	}
	sources, err := json.Marshal(c.Sources)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(strings.TrimSpace(string(doc)), "}")
	return json.RawMessage(fmt.Sprintf("%s, \"sources\": %s}", text, sources)), nil
}
