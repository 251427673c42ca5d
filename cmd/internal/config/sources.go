package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/ui"
)

// Sources holds the source of each value of the configuration that is no default, by
// key such as "limits.body" or "endpoints.city.slot".
type Sources map[string]string

const (
	fromFile   = registry.FromFile
	fromSecret = "secret file" // another file that the configuration names
	fromEnv    = "environment"
	FromFlag   = "flag"
)

// sourcesOf returns the sources of all values, which were read without error.
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

// OfEndpoint returns the source of an endpoint's setting, "" for a default. A setting of
// several parts is from a secret file if one of its parts is.
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

// Reloaded returns the sources after a reload, which applies tokens, endpoints and feeds only.
func (o Sources) Reloaded(now Sources) Sources {
	at := func(key string) bool {
		return strings.HasPrefix(key, "endpoints.") || strings.HasPrefix(key, "tokens.") || strings.HasPrefix(key, "feeds.")
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

// Shown lists the configuration in force, with masked secrets. It leaves out defaults
// of endpoints and tokens.
func (c *Config) Shown() []ui.Setting {
	var tree yaml.MapSlice
	if err := yaml.UnmarshalWithOptions([]byte(c.String()), &tree, yaml.UseOrderedMap()); err != nil {
		return []ui.Setting{{Key: "error", Value: err.Error(), From: "default"}}
	}
	var out []ui.Setting
	flatten("", tree, func(key, value string) {
		from, set := c.Sources[key]
		if of := strings.HasPrefix(key, "endpoints."); !set && (of || strings.HasPrefix(key, "tokens.") || strings.HasPrefix(key,
			"feeds.")) || of && strings.HasSuffix(key, ".name") {
			return
		}
		if !set {
			from = "default"
		}
		out = append(out, ui.Setting{Key: key, Value: value, From: from})
	})
	return out
}

// ShownEndpoints lists the settings of endpoints in force that are not defaults, with
// masked secrets and their sources.
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

// flatten visits the leaves of a document in order. The path of a list's member is its
// name; a list whose members have no names is one value, and so is a token.
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

// named reports whether all members of a list have a name.
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
