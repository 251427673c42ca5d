package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/ui"
)

// Origins tell where values of the configuration come from, by key as in
// "limits.body" or "endpoints.city.slot". What is not there is a default.
type Sources map[string]string

const (
	fromFile   = registry.FromFile
	fromSecret = "secret file" // the file names another one that holds it
	fromEnv    = "environment"
	FromFlag   = "flag"
)

// sourcesOf finds out where each value comes from. The sources have been read
// without error before.
func (s *Flags) sourcesOf(file string, getenv func(string) string) Sources {
	o := Sources{}
	if b, err := fileText(file); err == nil {
		var tree yaml.MapSlice
		if yaml.UnmarshalWithOptions(b, &tree, yaml.UseOrderedMap()) == nil {
			flatten("", tree, func(key, _ string) {
				o[key] = fromFile
				if strings.HasSuffix(key, "_file") {
					o[key] = fromSecret
				}
			})
		}
	}
	for key := range new(Config).settable() {
		if getenv(Variable(key)) != "" {
			o[key] = fromEnv
		}
	}
	if getenv("FRESHET_ADMIN_TOKEN") != "" || getenv("FRESHET_ADMIN_TOKEN_FILE") != "" {
		o["tokens.admin"] = fromEnv
	}
	for _, name := range []string{"listen", "public-url", "data", "contact", "log-level", "log-format"} {
		if s.set(name) {
			o[strings.Replace(strings.Replace(name, "log-", "log.", 1), "-", "_", 1)] = FromFlag
		}
	}
	for _, text := range s.endpoints {
		if e, err := endpointFlag(text); err == nil {
			o["endpoints."+e.Name+".url"] = FromFlag
		}
	}
	return o
}

// OfEndpoint is where a setting of an endpoint comes from, "" for a default. One of
// several parts comes from a secret file if one of them does.
func (o Sources) OfEndpoint(endpoint, name string) string {
	key := "endpoints." + endpoint + "." + name
	from := o[key]
	if name != "auth" && name != "headers" { // the others have no parts
		return from
	}
	for k, f := range o {
		if strings.HasPrefix(k, key+".") && from != fromSecret {
			from = f
		}
	}
	return from
}

// Reloaded are the origins after a reload, which brings tokens and endpoints in
// force and nothing else.
func (o Sources) Reloaded(now Sources) Sources {
	at := func(key string) bool {
		return strings.HasPrefix(key, "endpoints.") || strings.HasPrefix(key, "tokens.")
	}
	out := Sources{}
	for key, from := range o {
		if !at(key) {
			out[key] = from
		}
	}
	for key, from := range now {
		if at(key) {
			out[key] = from
		}
	}
	return out
}

// Shown lists the configuration in force for people: secrets masked, of each
// endpoint and token what was set, of the rest the defaults, too.
func (c *Config) Shown() []ui.Setting {
	var tree yaml.MapSlice
	if err := yaml.UnmarshalWithOptions([]byte(c.String()), &tree, yaml.UseOrderedMap()); err != nil {
		return []ui.Setting{{Key: "error", Value: err.Error(), From: "default"}}
	}
	var out []ui.Setting
	flatten("", tree, func(key, value string) {
		from, set := c.Sources[key]
		if of := strings.HasPrefix(key, "endpoints."); !set && (of || strings.HasPrefix(key, "tokens.")) || of && strings.HasSuffix(key, ".name") {
			return
		}
		if !set {
			from = "default"
		}
		out = append(out, ui.Setting{Key: key, Value: value, From: from})
	})
	return out
}

// ShownEndpoints lists the settings of endpoints in force that are not
// defaults, secrets masked, and says of each where it comes from.
func ShownEndpoints(all []registry.Endpoint, sources func(name string) (map[string]registry.Source, error)) (out []ui.Setting, err error) {
	for _, e := range all {
		of, err := sources(e.Name)
		if err != nil {
			return nil, err
		}
		text, err := yaml.Marshal(e.Masked())
		if err != nil {
			return nil, err
		}
		var tree yaml.MapSlice
		if err := yaml.UnmarshalWithOptions(text, &tree, yaml.UseOrderedMap()); err != nil {
			return nil, err
		}
		flatten("", tree, func(key, value string) {
			name, _, _ := strings.Cut(key, ".")
			if s := of[name]; s.From != "" && s.From != registry.FromDefault {
				out = append(out, ui.Setting{Key: join("endpoints."+e.Name, key), Value: value, From: s.String()})
			}
		})
	}
	return out, nil
}

// flatten visits the leaves of a document in its order. Members of a list that
// have a name are found under it; other lists are one value, and so is a token.
func flatten(prefix string, v any, visit func(key, value string)) {
	switch v := v.(type) {
	case yaml.MapSlice:
		for _, m := range v {
			flatten(join(prefix, fmt.Sprint(m.Key)), m.Value, visit)
		}
		if len(v) == 0 {
			visit(prefix, "–")
		}
	case []any:
		if !named(v) {
			visit(prefix, listed(v))
			return
		}
		for _, x := range v {
			m := x.(yaml.MapSlice).ToMap()
			name := join(prefix, fmt.Sprint(m["name"]))
			if role, ok := m["role"]; ok && prefix == "tokens" {
				visit(name, fmt.Sprintf("%v, its hash is not shown", role))
				continue
			}
			flatten(name, x, visit)
		}
	case nil:
		visit(prefix, "–")
	default:
		text := fmt.Sprint(v)
		if text == "" {
			text = "–"
		}
		visit(prefix, text)
	}
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// named says whether all members of a list have a name.
func named(list []any) bool {
	for _, x := range list {
		m, ok := x.(yaml.MapSlice)
		if !ok || m.ToMap()["name"] == nil {
			return false
		}
	}
	return len(list) > 0
}

func listed(list []any) string {
	if len(list) == 0 {
		return "–"
	}
	words := make([]string, len(list))
	for i, x := range list {
		words[i] = fmt.Sprint(x)
		if m, ok := x.(yaml.MapSlice); ok {
			var parts []string
			for _, e := range m {
				parts = append(parts, fmt.Sprintf("%v: %v", e.Key, e.Value))
			}
			words[i] = strings.Join(parts, ", ")
		}
	}
	return strings.Join(words, "; ")
}
