package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/web"
)

// A settingsForm holds the editable settings of an endpoint. Each has an explanation,
// with figures of this server where available.
type settingsForm struct {
	form
	List    []settingField
	Figures settingFigures
	Secret  fileSecret // how it signs in if a file on the server holds the secret
	From    *origin    // summary of the sources of the settings, nil if all are defaults
}

// A settingField is one field of the form. Its name is the same as in the API.
type settingField struct {
	Name    string
	Options []string // of a select element
	Check   bool     // a check box
	Lines   bool     // several lines
	Secret  bool     // never shown; an empty field keeps the current value
	Private bool     // for admins only
	Above   bool     // shown here, but set in the section above

	Source *registry.Source // source of the value, nil for a default
	Revert string           // address to restore the configuration file's value, "" if there is none
}

// The fields of the form in display order.
var settingFields = []settingField{
	{Name: "url"}, {Name: "slot"}, {Name: "budget"}, {Name: "policy", Above: true},
	{Name: "rule", Options: []string{plan.RuleStrict, plan.RuleDebt}},
	{Name: "concurrency"}, {Name: "timeout"}, {Name: "min_gap"}, {Name: "max_rows"}, {Name: "max_bytes"}, {Name: "max_columns"},
	{Name: "timeout_param"},
	{Name: "blackout", Lines: true}, {Name: "default_graph_uri", Lines: true}, {Name: "named_graph_uri", Lines: true},
	{Name: "profile_share"}, {Name: "fallback_policy"},
	{Name: "merge", Options: registry.MergeModes()},
	{Name: "allow_service", Check: true}, {Name: "own_services", Lines: true}, {Name: "allow_public", Check: true},
	{Name: "feed"}, {Name: "position", Lines: true}, {Name: "lag"},
	{Name: "headers", Lines: true, Private: true}, {Name: "auth", Private: true, Options: []string{"", "basic", "digest", "bearer"}},
	{Name: "username", Private: true}, {Name: "password", Secret: true, Private: true},
}

// settingNames lists the fields of both endpoint forms.
var settingNames = func() []string {
	list := []string{"name"}
	for _, s := range settingFields {
		list = append(list, s.Name)
	}
	return list
}()

// settingFigures are the figures quoted in the help texts; "" if unknown.
type settingFigures struct {
	Debt          bool   // the budget rule is debt
	Share         string // the budget's share of the endpoint's time
	Slots, Passed int    // number of recent slots, and of the executions that each skipped
	Used          string // the time that a slot used
	Longest       string // duration of the runs in the costliest slot
}

// settingsIn returns where an endpoint holds each setting of the form. The header
// fields and the sign-in have secrets and are read and written on their own.
func settingsIn(e *registry.Endpoint) map[string]any {
	return map[string]any{
		"url": &e.URL, "slot": &e.Slot, "budget": &e.Budget, "policy": &e.Policy, "rule": &e.Rule,
		"concurrency": &e.Concurrency, "timeout": &e.Timeout, "min_gap": &e.MinGap,
		"max_rows": &e.MaxRows, "max_bytes": &e.MaxBytes, "max_columns": &e.MaxColumns, "timeout_param": &e.TimeoutParam,
		"blackout": &e.Blackout, "default_graph_uri": &e.DefaultGraphURI, "named_graph_uri": &e.NamedGraphURI,
		"profile_share": &e.ProfileShare, "fallback_policy": &e.FallbackPolicy, "merge": &e.Merge,
		"allow_service": &e.AllowService, "own_services": &e.OwnServices, "allow_public": &e.AllowPublic,
		"feed": &e.Feed, "position": &e.Position, "lag": &e.Lag,
	}
}

// settingsOf fills the form with the settings in force.
func settingsOf(e registry.Endpoint) settingsForm {
	kind, user, _ := signInOf(e.Auth)
	v := url.Values{"name": {e.Name}, "tag": {tagOf(e)}, "headers": {headerLines(e.Masked().Headers)}, "auth": {kind}, "username": {user}}
	for name, setting := range settingsIn(&e) {
		if text := write(setting); text != "" {
			v.Set(name, text)
		}
	}
	return settingsForm{form: form{Values: v, Fields: settingNames}, Secret: secretInFile(e.Auth)}
}

// write returns the value of a setting as the form shows it.
func write(setting any) string {
	switch x := setting.(type) {
	case *registry.Duration:
		return x.Short()
	case *bool:
		if *x {
			return "1"
		}
		return ""
	case **bool:
		if *x == nil {
			return ""
		}
		return strconv.FormatBool(**x)
	case **time.Time:
		if *x == nil {
			return ""
		}
		return (*x).UTC().Format(time.RFC3339Nano)
	case *[]string:
		return strings.Join(*x, "\n")
	case *[]registry.Blackout:
		var list []string
		for _, b := range *x {
			list = append(list, b.Start+" for "+b.For.Short())
		}
		return strings.Join(list, "\n")
	}
	return fmt.Sprint(reflect.ValueOf(setting).Elem())
}

// tagOf identifies the current settings, so that a save does not overwrite a concurrent edit.
func tagOf(e registry.Endpoint) string {
	e.Pause = nil
	return web.EndpointTag(e)
}

// apply reads the form into e and records fields that cannot be parsed. Settings that
// are not in the form keep their values, except check boxes, which are then off.
func (f *form) apply(e *registry.Endpoint) {
	was := *e
	f.readAll(settingsIn(e))
	f.headers(was, e)
	f.signIn(was, e)
}

// readAll parses the submitted fields. Check boxes are submitted only if they are on.
func (f *form) readAll(settings map[string]any) {
	for name, setting := range settings {
		if _, check := setting.(*bool); check || f.Values.Has(name) {
			f.read(name, setting)
		}
	}
}

// read parses a field into a setting.
func (f *form) read(name string, setting any) {
	text := strings.TrimSpace(f.Get(name))
	switch x := setting.(type) {
	case *string:
		*x = text
	case *bool:
		*x = text != ""
	case **bool:
		*x = nil
		if on, err := strconv.ParseBool(text); err == nil {
			*x = &on
		} else if text != "" {
			f.bad(name, "bool")
		}
	case **time.Time:
		*x = nil
		if t, err := readMoment(text); err == nil {
			*x = &t
		} else if text != "" {
			f.bad(name, "time")
		}
	case *registry.Duration:
		*x = 0
		if text != "" && x.UnmarshalText([]byte(strings.ReplaceAll(text, " ", ""))) != nil {
			f.bad(name, "duration")
		}
	case *int:
		var err error
		if *x, err = strconv.Atoi(cmp.Or(text, "0")); err != nil {
			f.bad(name, "int")
		}
	case *[]string:
		*x = lines(text)
	case *[]registry.Blackout:
		f.blackouts(x)
	case *registry.Size:
		if text != "" && x.UnmarshalText([]byte(text)) != nil {
			f.bad(name, "size")
		}
	case *float64:
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			*x = n
		} else if text != "" {
			f.bad(name, "number")
		}
	}
}

// blackouts parses one blackout per line: a cron spec, "for", a duration.
func (f *form) blackouts(to *[]registry.Blackout) {
	*to = nil
	for _, line := range strings.Split(strings.ReplaceAll(f.Get("blackout"), "\r", ""), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		start, long, ok := strings.Cut(line, " for ")
		b := registry.Blackout{Start: strings.TrimSpace(start)}
		if !ok || b.For.UnmarshalText([]byte(strings.TrimSpace(long))) != nil {
			f.bad("blackout", "blackout")
			return
		}
		*to = append(*to, b)
	}
}

// explain adds to each setting its effect on this server and its source.
func (s *settingsForm) explain(e registry.Endpoint, t sum, slots []scheduler.Slot, v endpointHandler) error {
	sources, err := v.Registry.Sources(v.caller, e.Name)
	if err != nil {
		return err
	}
	s.List, s.From, s.Figures = nil, originOf(sources), figuresOf(e, t, slots)
	for _, f := range settingFields {
		if f.Private && (!v.May(registry.RoleAdmin) || s.Secret.Kind != "" && f.Name != "headers") {
			continue
		}
		if source, ok := sources[f.Name]; ok { // the parts of a sign-in have no sources of their own
			f.explain(source, endpointPath(e.Name))
		}
		s.List = append(s.List, f)
	}
	return nil
}

func (f *settingField) explain(s registry.Source, path string) {
	if s.From != registry.FromDefault {
		f.Source = &s
	}
	if s.From == registry.FromHere && s.File != nil {
		f.Revert = path + "/revert?setting=" + f.Name
	}
}

// An origin summarises the sources of an endpoint's settings.
type origin struct {
	File bool             // some are from the configuration file
	Last *registry.Source // the last change made on this server, nil if there is none
}

// originOf returns nil if all settings are defaults.
func originOf(sources map[string]registry.Source) *origin {
	var o origin
	for _, s := range sources {
		o.File = o.File || s.From != registry.FromDefault && s.From != registry.FromHere || s.File != nil
		if s.From == registry.FromHere && (o.Last == nil || s.At.After(o.Last.At)) {
			s.File = nil
			o.Last = &s
		}
	}
	if o == (origin{}) {
		return nil
	}
	return &o
}

func figuresOf(e registry.Endpoint, t sum, slots []scheduler.Slot) settingFigures {
	f := settingFigures{Debt: e.Rule == plan.RuleDebt, Longest: longestRun(slots)}
	if d := interval(e.Slot); d > 0 {
		f.Share = share(time.Duration(e.Budget).Seconds() / d.Seconds()).String()
	}
	if t.budget > 0 && t.slots > 0 {
		f.Slots, f.Passed = t.slots, t.Skipped/t.slots
		if t.used > 0 {
			f.Used = took(t.used / float64(max(1, t.slots-t.failed)))
		}
	}
	return f
}

// longestRun returns the average duration of the runs in the costliest slot; "" if no
// slot ran.
func longestRun(slots []scheduler.Slot) string {
	most := 0.0
	for _, s := range slots {
		if s.Run > 0 {
			most = max(most, s.Used/float64(s.Run))
		}
	}
	if most == 0 {
		return ""
	}
	return took(most)
}
