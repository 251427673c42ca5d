package feed

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// A wrong definition is refused by the setting that is wrong, with what to do about it.
func TestCheck(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	good := Definition{Name: "wikidata", Kind: Wikimedia, URL: "https://stream.example.org/v2", Contact: "mailto:a@example.org"}
	if err := good.Check("", now); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		setting, remedy string
		edit            func(*Definition)
	}{
		{"name", "begins with", func(d *Definition) { d.Name = "a b" }},
		{"kind", "use wikimedia, ldes, rdf-patch, changesets or deltas", func(d *Definition) { d.Kind = "kafka" }},
		{"url", "absolute http or https URL", func(d *Definition) { d.URL = "stream" }},
		{"url", "no credentials", func(d *Definition) { d.URL = "https://u:p@example.org/" }},
		{"url", "POST /v1/feeds/wikidata", func(d *Definition) { d.Kind = Deltas }},
		{"contact", "here or as the server's contact", func(d *Definition) { d.Contact = "" }},
		{"contact", "here or as the server's contact", func(d *Definition) { d.Kind, d.Contact = LDES, "" }},
		{"contact", "on one line", func(d *Definition) { d.Contact = "a\nb" }},
		{"topic", "leave it out", func(d *Definition) { d.Kind, d.Topic = RDFPatch, "main" }},
		{"since", "2026-11-27T12:00:01Z is in the future", func(d *Definition) { d.Since = now.Add(time.Second) }},
		{"headers", "set by Freshet itself", func(d *Definition) { d.Headers = map[string]string{"Last-Event-ID": "1"} }},
		{"headers", "not a header that can be sent", func(d *Definition) { d.Headers = map[string]string{"X": "a\nb"} }},
		{"headers", "leave them out", func(d *Definition) { d.Kind, d.URL, d.Headers = Deltas, "", map[string]string{"X": "a"} }},
		{"every", "negative", func(d *Definition) { d.Every = -1 }},
		{"silence", "negative", func(d *Definition) { d.Silence = -1 }},
		{"silence", "asked every 1m0s and would count as silent in between: set 2m0s or more", func(d *Definition) {
			d.Kind, d.Silence = LDES, registry.Duration(2*time.Minute-1)
		}},
		{"silence", "set 10m0s or more, set every to less", func(d *Definition) {
			d.Kind, d.Every, d.Silence = RDFPatch, registry.Duration(5*time.Minute), registry.Duration(time.Minute)
		}},
	} {
		d := good
		c.edit(&d)
		err := d.Check("", now)
		s, ok := errors.AsType[*registry.SettingError](err)
		if !ok || s.Setting != c.setting || !strings.Contains(err.Error(), c.remedy) {
			t.Errorf("%s: %v, want %q", c.setting, err, c.remedy)
		}
	}
	for _, d := range []Definition{
		{Name: "d", Kind: Deltas},
		{Name: "c", Kind: Changesets, URL: "./changesets"},
		{Name: "l", Kind: LDES, URL: "http://127.0.0.1:1/"},
		{Name: "w", Kind: Wikimedia, URL: "http://localhost:1/"},
		{Name: "p", Kind: RDFPatch, URL: "http://store/log"},
		{Name: "s", Kind: RDFPatch, URL: "http://store/log", Silence: registry.Duration(20 * time.Second)},
		{Name: "w", Kind: Wikimedia, URL: "http://localhost:1/", Silence: registry.Duration(time.Second)},
	} {
		if err := d.Check("", now); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	good.Contact = ""
	if err := good.Check("mailto:ops@example.org", now); err != nil {
		t.Errorf("with the server's contact: %v", err)
	}
}

func TestMasked(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "https://example.org/a": "https://example.org/a",
		"https://example.org/a?token=x&b&v={version}": "https://example.org/a?token=…&b&v={version}",
	} {
		if got := (Definition{URL: in}).Masked().URL; got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestMaskedHeaders(t *testing.T) {
	d := Definition{Headers: map[string]string{"Authorization": "Bearer hush"}}
	if m := d.Masked(); m.Headers["Authorization"] != "(set)" || d.Headers["Authorization"] != "Bearer hush" {
		t.Error(m.Headers, d.Headers)
	}
}

func TestKnown(t *testing.T) {
	list := []Definition{{Name: "wikidata"}, {Name: "commons"}}
	if d, err := Known(list, "commons"); err != nil || d.Name != "commons" {
		t.Error(d, err)
	}
	if _, err := Known(list, "wikidatas"); err == nil || !strings.Contains(err.Error(), "the feeds are: commons, wikidata") {
		t.Error(err)
	}
	if _, err := Known(nil, "x"); err == nil || !strings.Contains(err.Error(), "under feeds") {
		t.Error(err)
	}
}
