package registry

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A Configured endpoint is its settings with what is needed to say where they
// come from.
type Configured struct {
	Endpoint Endpoint        `json:"endpoint"`        // in force
	File     Endpoint        `json:"file"`            // what the configuration file applied last; zero when it never named the endpoint
	Edits    map[string]Edit `json:"edits,omitempty"` // settings that have another value than the file's, by name
}

// An Edit says who changed a setting here, and when.
type Edit struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Where the value of a setting comes from. The configuration adds "secret file"
// and "flag" to them.
const (
	FromDefault = "default"
	FromFile    = "file"
	FromHere    = "here" // changed by the API, the pages or the command line
)

// A Source says where the value of a setting in force comes from.
type Source struct {
	From string    `json:"from"`
	By   string    `json:"by,omitempty"` // of FromHere, "" where an older version did not note it
	At   time.Time `json:"at,omitzero"`
	// File is the value that the configuration file gives to a setting that was
	// changed here, as JSON; nil where the file says nothing of it. Values that
	// may hold secrets are not shown.
	File json.RawMessage `json:"file,omitempty"`
}

// String is the source in words, such as "changed here by ops on 18 Nov 2026".
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

// FileText is the value of the file for people.
func (s Source) FileText() string {
	var text string
	if json.Unmarshal(s.File, &text) == nil {
		return text
	}
	return string(s.File)
}

// settingFields are the fields of Endpoint that are settings, by their names.
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

// Settings are the names of an endpoint's settings, in the order of Endpoint.
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

// recordEdit brings Edits up to date after c.Endpoint was edited.
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

// applyFile brings the values that differ between the file's endpoint of before and
// the one of now in force; a value that was changed here stays where the file's
// did not change.
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

// revert takes the file's values back.
func (c *Configured) revert(names []string) {
	for _, name := range names {
		setting(&c.Endpoint, name).Set(setting(&c.File, name))
		delete(c.Edits, name)
	}
}

// checkSecrets refuses to take values back where that would send what may be a
// secret to a host that it was not given for: the file's to an address that was
// set here, or one that was set here to the file's address.
func (c *Configured) checkSecrets(was Endpoint, reverted []string) error {
	for _, name := range []string{"auth", "headers"} {
		now, filed := setting(&c.Endpoint, name), setting(&c.File, name)
		switch {
		case same(now, reflect.Zero(now.Type())):
		case slices.Contains(reverted, name) && c.Endpoint.URL != c.File.URL:
			return unprocessable("bad-endpoint", "/"+name, "%s of the file is for the file's url: take that back, too", name)
		case !same(now, filed) && LeavesHost(was, c.Endpoint):
			return unprocessable("bad-endpoint", "/"+name, "%s was set here for another host than the file's url: take it back, too, or set it again afterwards", name)
		}
	}
	return nil
}

// sources finds out where each setting comes from. filed says what sets it in
// the present configuration, "" for nothing.
func (c *Configured) sources(filed func(setting string) string) map[string]Source {
	out := map[string]Source{}
	for name := range settingFields {
		from := filed(name)
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

// Overridden says of settings that were just edited what the configuration file
// says of them, for whom it may surprise.
func Overridden(was, now Endpoint, sources map[string]Source) (notes []string) {
	for _, name := range Settings() {
		if s := sources[name]; s.File != nil && !same(setting(&was, name), setting(&now, name)) {
			notes = append(notes, fmt.Sprintf("%s: the configuration file says %s; what is set here holds until the file's value changes, which then wins at the next reload or start", name, s.FileText()))
		}
	}
	return notes
}

// Sources says where each setting of an endpoint comes from.
func (r *Registry) Sources(name string) (map[string]Source, error) {
	c, err := r.store.Configured(name)
	if err != nil {
		return nil, missingEndpoint(name, err)
	}
	return c.sources(func(setting string) string { return r.sourceInFile(name, setting) }), nil
}

// sourceInFile says what sets a setting in the configuration that was applied last.
func (r *Registry) sourceInFile(endpoint, setting string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fileSources[endpoint][setting]
}

// RevertEndpoint takes back the values that the configuration file has for the
// named settings; without names, for all.
func (r *Registry) RevertEndpoint(name string, names ...string) (Endpoint, error) {
	for _, n := range names {
		if _, ok := settingFields[n]; !ok {
			return Endpoint{}, unprocessable("bad-endpoint", "/settings", "%q is no setting of an endpoint", n)
		}
	}
	if len(names) == 0 {
		names = Settings()
	}
	return r.storeEndpoint(name, func(c *Configured, found bool) error {
		if !found {
			return notFound("no endpoint is named %s", name)
		}
		if c.File.URL == "" {
			return &Problem{Type: "not-in-file", Status: 409, Title: "Not in the file", Detail: "the configuration file does not name the endpoint " + name + ": there is no value to take back"}
		}
		was := c.Endpoint
		c.revert(names)
		if err := c.checkSecrets(was, names); err != nil {
			return err
		}
		return CheckEndpoint(c.Endpoint, r.check)
	})
}
