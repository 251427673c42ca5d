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

// CreateEndpoint adds an endpoint. Settings that are zero get their defaults.
func (r *Registry) CreateEndpoint(c Caller, e Endpoint) (Endpoint, error) {
	e = e.WithDefaults()
	if err := CheckEndpoint(e, r.check); err != nil {
		return Endpoint{}, err
	}
	return r.storeEndpoint(e.Name, func(cur *Configured, found bool) error {
		if found {
			return &Problem{Kind: KindExists, Detail: "an endpoint named " + e.Name + " exists: edit it instead"}
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
			return wrongField(KindBadEndpoint, "/name", "an endpoint keeps its name; create another one instead")
		}
		*e = e.WithDefaults()
		cur.recordEdit(was, r.editBy(c))
		return CheckEndpoint(*e, r.check)
	})
}

func (r *Registry) editBy(c Caller) Edit { return Edit{By: c.Name, At: r.now().UTC()} }

// DeleteEndpoint removes an endpoint with its queries and their history, unless
// check, if it is not nil, returns an error for it.
func (r *Registry) DeleteEndpoint(name string, check func(Endpoint) error) error {
	_, err := r.editEndpoint(name, func(e *Endpoint) error {
		if check != nil {
			if err := check(*e); err != nil {
				return err
			}
		}
		*e = Endpoint{Name: name} // an endpoint without a URL is deleted
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
		r.endpointEdited(name)
	}
	return e, err
}

// ApplyFile puts the endpoints of the configuration file in force. An edited
// value stays unless the file's value differs from the one that the file
// applied last. from returns what sets a setting of an endpoint, "" if nothing
// does; if from is nil, the file sets every setting whose value is not the
// default.
func (r *Registry) ApplyFile(endpoints []Endpoint, from func(endpoint, setting string) string) error {
	for _, e := range endpoints { // check all before applying any: a bad file changes nothing
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

// setFileSources records what sets each setting of the file's endpoints.
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

// checkFile returns an error if an endpoint of the file cannot be put in force,
// alone or combined with the edits of the running server. It changes nothing.
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

// same compares two settings. A nil list equals an empty one, because a store
// need not keep the difference.
func same(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// A SettingError is an error about one setting of an endpoint.
type SettingError struct {
	Setting string // JSON name
	Err     error
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns the error about the setting.
func (e *SettingError) Unwrap() error { return e.Err }

// CheckEndpoint returns a *Problem if an endpoint's settings are invalid.
// schedule checks what this package does not know, such as slot, budget, policy
// and contact. Its errors may wrap a *SettingError.
func CheckEndpoint(e Endpoint, schedule func(Endpoint) error) error {
	bad := func(field, format string, a ...any) error {
		return wrongField(KindBadEndpoint, "/"+field, format, a...)
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
		return bad("budget", "budget must be greater than 0")
	case e.Concurrency < 1 || e.Concurrency > 64:
		return bad("concurrency", "concurrency must be from 1 to 64")
	case e.Timeout <= 0:
		return bad("timeout", "timeout must be greater than 0")
	case !(e.ProfileShare >= 0 && e.ProfileShare <= 1):
		return bad("profile_share", "profile_share must be from 0 to 1")
	case !slices.Contains(MergeModes(), e.Merge):
		return bad("merge", "merge must be one of %s", strings.Join(MergeModes(), ", "))
	case slices.Contains(protocolParams, e.TimeoutParam):
		return bad("timeout_param", "%q is a parameter of the SPARQL protocol itself; name the endpoint's own parameter for a time limit in milliseconds, such as timeout", e.TimeoutParam)
	case e.MaxColumns < 0:
		return bad("max_columns", "max_columns must be greater than 0; leave it out for the default of %d", DefaultMaxColumns)
	case e.MaxRows < 0:
		return bad("max_rows", "max_rows must be 0 (no cap) or greater")
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

// CheckGiven refuses settings that are explicitly 0 where 0 means the default,
// because they would silently become the default. given holds the settings as
// written, by name.
func CheckGiven(given map[string]any) error {
	for _, key := range []string{"budget", "timeout", "concurrency", "profile_share", "max_bytes"} {
		if v, ok := given[key]; ok && zero(v) {
			return wrongField(KindBadEndpoint, "/"+key, "%s must be greater than 0; leave it out for the default", key)
		}
	}
	return nil
}

// zero reports whether a JSON or YAML value is 0, with or without a unit.
func zero(v any) bool {
	text := fmt.Sprint(v) // null is "<nil>"
	var d Duration
	var s Size
	n, err := strconv.ParseFloat(text, 64)
	return err == nil && n == 0 || d.UnmarshalText([]byte(text)) == nil && d == 0 || s.UnmarshalText([]byte(text)) == nil && s == 0
}

// badSetting returns a problem that points to the setting that err names, else
// to the whole endpoint.
func badSetting(err error) *Problem {
	s := (*SettingError)(nil)
	if !errors.As(err, &s) {
		return wrongField(KindBadEndpoint, "", "%v", err)
	}
	p := wrongField(KindBadEndpoint, "/"+s.Setting, "%v", s.Err)
	p.Detail = s.Error()
	return p
}

// protocolParams are the parameters of the SPARQL 1.1 Protocol. A time limit in
// their place would replace a part of the request.
var protocolParams = []string{"query", "update", "default-graph-uri", "named-graph-uri", "using-graph-uri", "using-named-graph-uri"}

// validPort reports whether a URL's port is valid. An empty one is.
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

// Masked returns e with its secrets replaced by "(set)".
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
