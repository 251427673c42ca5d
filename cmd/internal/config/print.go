package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

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

// remarked adds the sources of values to the lines of a document in block style. It
// follows the keys by their indentation.
func remarked(text string, o Sources) string {
	type level struct {
		indent int
		key    string
		item   bool
	}
	var at []level
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		item, member := strings.CutPrefix(rest, "- ")
		if member {
			for len(at) > 0 && (at[len(at)-1].indent > indent || at[len(at)-1].indent == indent && at[len(at)-1].item) {
				at = at[:len(at)-1]
			}
			name, _ := strings.CutPrefix(item, "name: ")
			at = append(at, level{indent, strings.Trim(name, `"`), true})
			rest, indent = item, indent+2
		}
		for len(at) > 0 && at[len(at)-1].indent >= indent {
			at = at[:len(at)-1]
		}
		key, _, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		path := ""
		for _, l := range at {
			path = join(path, l.key)
		}
		from := o[path] // of a token as a whole
		if !member || !strings.HasPrefix(path, "tokens.") {
			from = o[join(path, key)]
		}
		if from != "" {
			lines[i] += "  # " + from
		}
		at = append(at, level{indent, key, false})
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
