package registry

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A Configured endpoint is an endpoint with the sources of its settings.
type Configured struct {
	Endpoint Endpoint        `json:"endpoint"`        // the settings in force
	File     Endpoint        `json:"file"`            // what the configuration file applied last; zero if it never named the endpoint
	Edits    map[string]Edit `json:"edits,omitempty"` // settings whose value differs from the file's, by name
}

// An Edit records who changed a setting on the running server, and when.
type Edit struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// The sources of a setting's value. The configuration adds "secret file" and
// "flag".
const (
	FromDefault = "default"
	FromFile    = "file"
	FromHere    = "here" // edited by the API, the pages or the command line
)

// A Source is where the value of a setting in force comes from.
type Source struct {
	From string    `json:"from"`
	By   string    `json:"by,omitempty"` // only with FromHere; "" if an older version did not record it
	At   time.Time `json:"at,omitzero"`
	// File is the configuration file's value of a setting that was edited here, as
	// JSON. It is nil if the file does not set it, and for settings that may hold
	// secrets.
	File json.RawMessage `json:"file,omitempty"`
}

// String describes the source, such as "changed here by ops on 18 Nov 2026".
func (s Source) String() string {
	if s.From != FromHere {
		return s.From
	}
	text := "changed here"
	if s.By != "" {
		text += " by " + s.By + " on " + s.At.UTC().Format("2 Jan 2006")
	}
	if s.File != nil {
		text += "; the file says " + s.FileText()
	}
	return text
}

// FileText is the file's value as text for people.
func (s Source) FileText() string {
	var text string
	if json.Unmarshal(s.File, &text) == nil {
		return text
	}
	return string(s.File)
}

// settingFields maps the name of each setting to its field of Endpoint.
var settingFields = func() map[string]int {
	fields := map[string]int{}
	t := reflect.TypeFor[Endpoint]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "name" && name != "pause" {
			fields[name] = i
		}
	}
	return fields
}()

// Settings lists the names of an endpoint's settings in the order of Endpoint's
// fields.
func Settings() []string {
	names := make([]string, 0, len(settingFields))
	for name := range settingFields {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return settingFields[a] - settingFields[b] })
	return names
}

func setting(e *Endpoint, name string) reflect.Value {
	return reflect.ValueOf(e).Elem().Field(settingFields[name])
}

// recordEdit updates Edits after c.Endpoint was edited.
func (c *Configured) recordEdit(was Endpoint, e Edit) {
	for name := range settingFields {
		now := setting(&c.Endpoint, name)
		switch {
		case same(setting(&was, name), now):
		case c.File.URL != "" && same(setting(&c.File, name), now):
			delete(c.Edits, name)
		default:
			if c.Edits == nil {
				c.Edits = map[string]Edit{}
			}
			c.Edits[name] = e
		}
	}
}

// applyFile puts those values of the file's endpoint in force that differ from
// the ones that the file applied last. An edited value stays if the file's
// value is unchanged.
func (c *Configured) applyFile(now Endpoint) {
	for name := range settingFields {
		next := setting(&now, name)
		if !same(setting(&c.File, name), next) {
			setting(&c.Endpoint, name).Set(next)
		}
		if same(setting(&c.Endpoint, name), next) {
			delete(c.Edits, name)
		}
	}
	c.File = now
}

// revert restores the file's values of the named settings.
func (c *Configured) revert(names []string) {
	for _, name := range names {
		setting(&c.Endpoint, name).Set(setting(&c.File, name))
		delete(c.Edits, name)
	}
}

// checkSecrets returns an error if a revert would send a possible secret to a
// host that it was not given for: the file's secret to an edited URL, or an
// edited secret to the file's URL.
func (c *Configured) checkSecrets(was Endpoint, reverted []string) error {
	for _, name := range []string{"auth", "headers"} {
		now, filed := setting(&c.Endpoint, name), setting(&c.File, name)
		switch {
		case same(now, reflect.Zero(now.Type())):
		case slices.Contains(reverted, name) && c.Endpoint.URL != c.File.URL:
			return WrongField(KindBadEndpoint, "/"+name, "%s in the file belongs to the file's url: revert url, too", name)
		case !same(now, filed) && LeavesHost(was, c.Endpoint):
			return WrongField(KindBadEndpoint, "/"+name, "%s was set here for another host than the file's url: revert it, too, or "+
				"set it again afterwards", name)
		}
	}
	return nil
}

// sources returns the source of each setting. filed holds what sets a setting in
// the present configuration, by name.
func (c *Configured) sources(filed map[string]string) map[string]Source {
	out := map[string]Source{}
	for name := range settingFields {
		from := filed[name]
		edit, edited := c.Edits[name]
		changed := c.File.URL != "" && !same(setting(&c.Endpoint, name), setting(&c.File, name))
		switch {
		case edited || changed:
			s := Source{From: FromHere, By: edit.By, At: edit.At}
			if from != "" && name != "auth" && name != "headers" {
				s.File, _ = json.Marshal(setting(&c.File, name).Interface()) // it was read from JSON or YAML
			}
			out[name] = s
		case from != "":
			out[name] = Source{From: from}
		default:
			out[name] = Source{From: FromDefault}
		}
	}
	return out
}

// Overridden returns a note for each setting that was just edited although the
// configuration file sets it.
func Overridden(was, now Endpoint, sources map[string]Source) (notes []string) {
	for _, name := range Settings() {
		if s := sources[name]; s.File != nil && !same(setting(&was, name), setting(&now, name)) {
			notes = append(notes, fmt.Sprintf("%s: the configuration file says %s; the value set here stays in force until the "+
				"file's value changes and the file is loaded again", name, s.FileText()))
		}
	}
	return notes
}

// same compares two settings. A nil list equals an empty one, because a store
// need not keep the difference.
func same(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
