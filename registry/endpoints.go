package registry

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var endpointName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Endpoints lists all endpoints by name.
func (r *Registry) Endpoints() ([]Endpoint, error) { return r.store.Endpoints() }

// Endpoint returns one endpoint.
func (r *Registry) Endpoint(name string) (Endpoint, error) {
	e, err := r.store.Endpoint(name)
	return e, missingEndpoint(name, err)
}

func missingEndpoint(name string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return notFound("no endpoint is named %s", name)
	}
	return err
}

// CreateEndpoint adds an endpoint; what it leaves out gets its default.
func (r *Registry) CreateEndpoint(c Caller, e Endpoint) (Endpoint, error) {
	e = e.WithDefaults()
	if err := CheckEndpoint(e, r.check); err != nil {
		return Endpoint{}, err
	}
	return r.storeEndpoint(e.Name, func(cur *Configured, found bool) error {
		if found {
			return &Problem{Type: "exists", Status: 409, Title: "Exists already", Detail: "an endpoint named " + e.Name + " exists: edit it instead"}
		}
		*cur = Configured{Endpoint: e}
		cur.recordEdit(Endpoint{}.WithDefaults(), r.editBy(c))
		return nil
	})
}

// UpdateEndpoint edits an endpoint in one transaction. The name stays.
func (r *Registry) UpdateEndpoint(c Caller, name string, edit func(*Endpoint) error) (Endpoint, error) {
	return r.storeEndpoint(name, func(cur *Configured, found bool) error {
		if !found {
			return notFound("no endpoint is named %s", name)
		}
		was, e := cur.Endpoint, &cur.Endpoint
		if err := edit(e); err != nil {
			return err
		}
		if e.Name != name {
			return unprocessable("bad-endpoint", "/name", "an endpoint keeps its name; create another one instead")
		}
		*e = e.WithDefaults()
		cur.recordEdit(was, r.editBy(c))
		return CheckEndpoint(*e, r.check)
	})
}

func (r *Registry) editBy(c Caller) Edit { return Edit{By: c.Name, At: r.now().UTC()} }

// DeleteEndpoint removes an endpoint with its queries and their history.
func (r *Registry) DeleteEndpoint(name string) error {
	_, err := r.editEndpoint(name, func(e *Endpoint) error {
		*e = Endpoint{Name: name} // without URL: it is to go
		return nil
	})
	return err
}

// PauseEndpoint stops the slots of an endpoint until it is resumed.
func (r *Registry) PauseEndpoint(c Caller, name string) (Endpoint, error) {
	return r.editEndpoint(name, func(e *Endpoint) error {
		if e.Pause == nil {
			e.Pause = &Pause{By: c.Name, At: r.now().UTC()}
		}
		return nil
	})
}

// ResumeEndpoint undoes PauseEndpoint.
func (r *Registry) ResumeEndpoint(name string) (Endpoint, error) {
	return r.editEndpoint(name, func(e *Endpoint) error {
		e.Pause = nil
		return nil
	})
}

func (r *Registry) editEndpoint(name string, edit func(*Endpoint) error) (Endpoint, error) {
	return r.storeEndpoint(name, func(c *Configured, found bool) error {
		if !found {
			return notFound("no endpoint is named %s", name)
		}
		return edit(&c.Endpoint)
	})
}

func (r *Registry) storeEndpoint(name string, edit func(c *Configured, found bool) error) (Endpoint, error) {
	e, err := r.store.EditEndpoint(name, edit)
	r.revision.Add(1)
	if err == nil {
		r.tuned(name)
	}
	return e, err
}

// ApplyFile brings the endpoints of the configuration file in force. A value
// that was edited by the API stays, unless the file's value differs from the
// one that the file applied last. from says what sets a setting of an endpoint,
// "" for nothing; nil is the file for all that has no default value.
func (r *Registry) ApplyFile(endpoints []Endpoint, from func(endpoint, setting string) string) error {
	for _, e := range endpoints { // all of them first: a bad file changes nothing
		if err := r.checkFile(e.WithDefaults()); err != nil {
			return fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
	}
	r.setFileSources(endpoints, from)
	for _, e := range endpoints {
		e = e.WithDefaults()
		_, err := r.storeEndpoint(e.Name, func(c *Configured, found bool) error {
			if !found || c.File.URL == "" {
				*c = Configured{Endpoint: e, File: e}
				return nil
			}
			c.applyFile(e)
			return CheckEndpoint(c.Endpoint, r.check)
		})
		if err != nil {
			return fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
	}
	return nil
}

// setFileSources keeps what sets the settings of the file's endpoints.
func (r *Registry) setFileSources(endpoints []Endpoint, from func(endpoint, setting string) string) {
	plain := Endpoint{}.WithDefaults()
	file := map[string]map[string]string{}
	for _, e := range endpoints {
		e = e.WithDefaults()
		set := map[string]string{}
		for name := range settingFields {
			switch {
			case from != nil:
				set[name] = from(e.Name, name)
			case !same(setting(&e, name), setting(&plain, name)):
				set[name] = FromFile
			}
		}
		file[e.Name] = set
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fileSources = file
}

// checkFile says whether an endpoint of the file could come in force, alone and
// together with what the API edited. It changes nothing.
func (r *Registry) checkFile(e Endpoint) error {
	if err := CheckEndpoint(e, r.check); err != nil {
		return err
	}
	c, err := r.store.Configured(e.Name)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case c.File.URL == "":
		return nil
	}
	c.applyFile(e)
	return CheckEndpoint(c.Endpoint, r.check)
}

// same treats nil and empty lists alike: a store need not keep the difference.
func same(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// A SettingError says which setting of an endpoint an error is about.
type SettingError struct {
	Setting string // its name in JSON
	Err     error
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns the error about the setting.
func (e *SettingError) Unwrap() error { return e.Err }

// CheckEndpoint says what is wrong with an endpoint's settings, as a *Problem.
// schedule judges what this package does not know, such as slot, budget, policy
// and contact; its errors may wrap a *SettingError.
func CheckEndpoint(e Endpoint, schedule func(Endpoint) error) error {
	bad := func(field, format string, a ...any) error {
		return unprocessable("bad-endpoint", "/"+field, format, a...)
	}
	u, err := url.Parse(e.URL)
	switch {
	case !endpointName.MatchString(e.Name):
		return bad("name", "a name begins with a letter or digit and holds letters, digits, dot, underscore and hyphen, 64 at most")
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return bad("url", "the URL must be absolute, with http or https")
	case u.Fragment != "" || strings.Contains(e.URL, "#"):
		return bad("url", "the URL must not have a fragment")
	case !validPort(u.Port()):
		return bad("url", "the URL's port must lie between 1 and 65535")
	case u.User != nil:
		return bad("url", "put credentials into auth, not into the URL")
	case e.Budget <= 0:
		return bad("budget", "the budget must be longer than nothing")
	case e.Concurrency < 1 || e.Concurrency > 64:
		return bad("concurrency", "concurrency lies between 1 and 64")
	case e.Timeout <= 0:
		return bad("timeout", "the timeout must be longer than nothing")
	case !(e.ProfileShare >= 0 && e.ProfileShare <= 1):
		return bad("profile_share", "profile_share lies between 0 and 1")
	case slices.Contains(protocolParams, e.TimeoutParam):
		return bad("timeout_param", "%q is a parameter of the SPARQL protocol itself; name the one that the endpoint takes a limit in milliseconds by, such as timeout", e.TimeoutParam)
	case e.MaxColumns < 0:
		return bad("max_columns", "max_columns must be greater than 0; leave it out for the default of %d", DefaultMaxColumns)
	case e.MaxRows < 0:
		return bad("max_rows", "max_rows is 0 (no cap) or more")
	}
	for _, own := range e.OwnServices {
		if !serviceName.MatchString(own) {
			return bad("own_services", "%q is neither an absolute IRI nor a name with a prefix, such as wikibase:label", own)
		}
	}
	if err := headers(e.Headers); err != nil {
		return bad("headers", "%v", err)
	}
	if err := e.Auth.check(); err != nil {
		return bad("auth", "%v", err)
	}
	if schedule != nil {
		if err := schedule(e); err != nil {
			return badSetting(err)
		}
	}
	return nil
}

// CheckGiven refuses settings that are given as 0 where 0 is how the default is
// kept: they would silently become the default. given holds what was written,
// by key.
func CheckGiven(given map[string]any) error {
	for _, key := range []string{"budget", "timeout", "concurrency", "profile_share", "max_bytes"} {
		if v, ok := given[key]; ok && zero(v) {
			return unprocessable("bad-endpoint", "/"+key, "%s must be greater than 0; leave it out for the default", key)
		}
	}
	return nil
}

// zero reports whether a value of JSON or YAML is 0, with or without a unit.
func zero(v any) bool {
	text := fmt.Sprint(v) // null is "<nil>"
	var d Duration
	var s Size
	n, err := strconv.ParseFloat(text, 64)
	return err == nil && n == 0 || d.UnmarshalText([]byte(text)) == nil && d == 0 || s.UnmarshalText([]byte(text)) == nil && s == 0
}

// badSetting points at the setting that err names, else at the whole endpoint.
func badSetting(err error) *Problem {
	s := (*SettingError)(nil)
	if !errors.As(err, &s) {
		return unprocessable("bad-endpoint", "", "%v", err)
	}
	p := unprocessable("bad-endpoint", "/"+s.Setting, "%v", s.Err)
	p.Detail = s.Error()
	return p
}

// protocolParams are those of the SPARQL 1.1 Protocol: a limit in their place
// would be asked instead of the question.
var protocolParams = []string{"query", "update", "default-graph-uri", "named-graph-uri", "using-graph-uri", "using-named-graph-uri"}

// validPort reports whether a URL's port is one; none is.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// serviceName matches an IRI with a scheme, or a prefixed name.
var serviceName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+._-]*:[^\s<>"{}|\\^` + "`" + `]+$`)

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func headers(h map[string]string) error {
	for name, value := range h {
		if !headerName.MatchString(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fmt.Errorf("%q is not a header that can be sent", name)
		}
		switch strings.ToLower(name) {
		case "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "accept", "accept-encoding", "user-agent",
			"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range", "expect", "te", "trailer", "upgrade":
			return fmt.Errorf("%s is set by Freshet itself", name)
		}
	}
	return nil
}

func (a Auth) check() error {
	kinds := 0
	for _, p := range []*Password{a.Basic, a.Digest} {
		if p == nil {
			continue
		}
		kinds++
		if p.Username == "" || (p.Password == "") == (p.PasswordFile == "") {
			return errors.New("give a username and either password or password_file")
		}
	}
	if b := a.Bearer; b != nil {
		kinds++
		if (b.Token == "") == (b.TokenFile == "") {
			return errors.New("give either token or token_file")
		}
	}
	if kinds > 1 {
		return errors.New("give only one of basic, digest and bearer")
	}
	return nil
}

// Masked returns e with its secrets replaced, for showing.
func (e Endpoint) Masked() Endpoint {
	const mask = "(set)"
	hide := func(p *Password) *Password {
		if p == nil {
			return nil
		}
		c := *p
		if c.Password != "" {
			c.Password = mask
		}
		return &c
	}
	e.Auth.Basic, e.Auth.Digest = hide(e.Auth.Basic), hide(e.Auth.Digest)
	if e.Auth.Bearer != nil {
		b := *e.Auth.Bearer
		if b.Token != "" {
			b.Token = mask
		}
		e.Auth.Bearer = &b
	}
	if len(e.Headers) > 0 {
		m := map[string]string{}
		for k := range e.Headers {
			m[k] = mask
		}
		e.Headers = m
	}
	return e
}
