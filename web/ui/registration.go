package ui

import (
	"cmp"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// registerFields are the fields of a registration in page order. Those after "query"
// can also be edited later.
var registerFields = []string{"endpoint", "query", "name", "tags", "weight", "max_staleness", "min_interval", "alone", "public",
	"ordered", "default_graph_uri", "named_graph_uri", "from", "until", "urgency", "life"}

var holderFields = registerFields[1:]

// registrationSettings returns where a registration holds each setting of the form.
func registrationSettings(reg *registry.Registration) map[string]any {
	return map[string]any{
		"name": &reg.Name, "tags": &reg.Tags, "weight": &reg.Weight, "max_staleness": &reg.MaxStaleness, "min_interval": &reg.MinInterval,
		"alone": &reg.Alone, "public": &reg.Public, "ordered": &reg.Ordered, "default_graph_uri": &reg.DefaultGraphURI, "named_graph_uri": &reg.NamedGraphURI,
		"from": &reg.From, "until": &reg.Until, "urgency": &reg.Urgency, "life": &reg.Life,
	}
}

// registration reads the form into reg and records fields that cannot be parsed.
func (f *form) registration(reg registry.Registration) registry.Registration {
	if f.Values.Has("weight") {
		reg.Weight = 0 // an empty field restores the default
	}
	f.readAll(registrationSettings(&reg))
	if f.Values.Has("query") {
		reg.Text = strings.ReplaceAll(f.Get("query"), "\r\n", "\n")
	}
	return reg
}

// registration returns the registration of one holder.
func (v holderHandler) registration(q *registry.Query, h registry.Holder) registry.Registration {
	reg := registry.Registration{Endpoint: q.Endpoint, Text: q.Text, Name: h.Name, Tags: h.Tags, Weight: cmp.Or(h.Weight, 1), MaxStaleness: h.MaxStaleness, MinInterval: h.MinInterval,
		DefaultGraphURI: q.DefaultGraphs, NamedGraphURI: q.NamedGraphs, From: h.From, Until: h.Until, Alone: h.Alone, Public: h.Public, Urgency: h.Urgency, Life: h.Life}
	if usual, err := v.Registry.Analyse(registry.Registration{Endpoint: q.Endpoint, Text: q.Text}); err != nil || usual.Ordered != q.Ordered {
		reg.Ordered = &q.Ordered
	}
	return reg
}

// fill writes a registration into the form.
func (f *form) fill(reg registry.Registration) {
	f.Values.Set("query", reg.Text)
	for name, setting := range registrationSettings(&reg) {
		if d, ok := setting.(*registry.Duration); !ok || *d > 0 {
			f.Values.Set(name, write(setting))
		}
	}
	f.Values.Set("tags", strings.Join(reg.Tags, ", "))
}

// patchOf returns the edit that gives a holder the settings of a registration.
func patchOf(reg *registry.Registration) registry.Patch {
	tags := append([]string{}, reg.Tags...)
	return registry.Patch{Name: &reg.Name, Tags: &tags, Weight: &reg.Weight, Alone: &reg.Alone, Public: &reg.Public, MaxStaleness: &reg.MaxStaleness, MinInterval: &reg.MinInterval,
		From: cmp.Or(reg.From, &time.Time{}), Until: cmp.Or(reg.Until, &time.Time{}), Urgency: &reg.Urgency, Life: &reg.Life}
}
