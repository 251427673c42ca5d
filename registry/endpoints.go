package registry

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An EndpointRegistry configures endpoints.
type EndpointRegistry struct {
	store           EndpointStore
	defaultEndpoint string               // for requests that name none
	check           func(Endpoint) error // validates slot, policy and budget together
	edited          func(endpoint string)
	now             func() time.Time
	revision        atomic.Uint64 // number of edits

	mu          sync.Mutex
	fileSources map[string]map[string]string // what sets each setting in the configuration, by endpoint and setting
	unstored    []string                     // endpoints of the configuration that could not be stored
}

// Endpoints lists all endpoints by name.
func (r *EndpointRegistry) Endpoints() ([]Endpoint, error) { return r.store.Endpoints() }

// Endpoint returns one endpoint.
func (r *EndpointRegistry) Endpoint(name string) (Endpoint, error) {
	e, err := r.store.Endpoint(name)
	return e, missingEndpoint(name, err)
}

func missingEndpoint(name string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return notFound("no endpoint is named %s", name)
	}
	return err
}

// MayCreate returns the error that CreateEndpoint would return for the settings of an endpoint, whether or not
// its name is taken.
func (r *EndpointRegistry) MayCreate(e Endpoint) error {
	return CheckEndpoint(e.WithDefaults(), r.check)
}

// CreateEndpoint adds an endpoint. Settings that are zero get their defaults.
func (r *EndpointRegistry) CreateEndpoint(c Caller, e Endpoint) (Endpoint, error) {
	e = e.WithDefaults()
	if err := CheckEndpoint(e, r.check); err != nil {
		return Endpoint{}, err
	}
	return r.editOrCreate(e.Name, func(cur *Configured, found bool) error {
		if found {
			return &Problem{Kind: KindExists, Detail: "an endpoint named " + e.Name + " exists: edit it instead"}
		}
		*cur = Configured{Endpoint: e}
		cur.recordEdit(Endpoint{}.WithDefaults(), r.editBy(c))
		return nil
	})
}

// UpdateEndpoint edits an endpoint in one transaction. The name stays.
func (r *EndpointRegistry) UpdateEndpoint(c Caller, name string, edit func(*Endpoint) error) (Endpoint, error) {
	return r.edit(name, func(cur *Configured) error {
		was, e := cur.Endpoint, &cur.Endpoint
		if err := edit(e); err != nil {
			return err
		}
		if e.Name != name {
			return WrongField(KindBadEndpoint, "/name", "an endpoint keeps its name; create another one instead")
		}
		*e = e.WithDefaults()
		cur.recordEdit(was, r.editBy(c))
		return CheckEndpoint(*e, r.check)
	})
}

func (r *EndpointRegistry) editBy(c Caller) Edit { return Edit{By: c.Name, At: r.now().UTC()} }

// InFile reports whether the configuration that was loaded last names an endpoint. The next load makes such an endpoint
// again after its removal.
func (r *EndpointRegistry) InFile(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.fileSources[name]
	return ok
}

// DeleteEndpoint removes an endpoint with its queries and their history, unless
// check, if it is not nil, returns an error for it.
func (r *EndpointRegistry) DeleteEndpoint(name string, check func(Endpoint) error) error {
	_, err := r.edit(name, func(c *Configured) error {
		if check != nil {
			if err := check(c.Endpoint); err != nil {
				return err
			}
		}
		c.Endpoint = Endpoint{Name: name} // an endpoint without a URL is deleted
		return nil
	})
	return err
}

// PauseEndpoint stops the slots of an endpoint until it is resumed.
func (r *EndpointRegistry) PauseEndpoint(c Caller, name string) (Endpoint, error) {
	return r.edit(name, func(cur *Configured) error {
		if cur.Endpoint.Pause == nil {
			cur.Endpoint.Pause = &Pause{By: c.Name, At: r.now().UTC()}
		}
		return nil
	})
}

// ResumeEndpoint undoes PauseEndpoint.
func (r *EndpointRegistry) ResumeEndpoint(name string) (Endpoint, error) {
	return r.edit(name, func(c *Configured) error {
		c.Endpoint.Pause = nil
		return nil
	})
}

// edit edits an endpoint that exists.
func (r *EndpointRegistry) edit(name string, edit func(*Configured) error) (Endpoint, error) {
	return r.editOrCreate(name, func(c *Configured, found bool) error {
		if !found {
			return notFound("no endpoint is named %s", name)
		}
		return edit(c)
	})
}

func (r *EndpointRegistry) editOrCreate(name string, edit func(c *Configured, found bool) error) (Endpoint, error) {
	e, err := r.store.EditEndpoint(name, edit)
	r.revision.Add(1)
	if err == nil {
		r.edited(name)
	}
	return e, err
}

// ApplyFile puts the endpoints of the configuration file in force. An edited
// value stays unless the file's value differs from the one that the file
// applied last. from returns what sets a setting of an endpoint, "" if nothing
// does; if from is nil, the file sets every setting whose value is not the
// default.
func (r *EndpointRegistry) ApplyFile(endpoints []Endpoint, from func(endpoint, setting string) string) error {
	for _, e := range endpoints { // check all before applying any: a bad file changes nothing
		if err := r.checkFile(e.WithDefaults()); err != nil {
			return fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
	}
	r.setFileSources(endpoints, from)
	var failed []error
	var unstored []string
	for i, e := range endpoints { // one that cannot be stored now keeps no other one back
		e = e.WithDefaults()
		_, err := r.editOrCreate(e.Name, func(c *Configured, found bool) error {
			if !found || c.File.URL == "" {
				*c = Configured{Endpoint: e, File: e}
				return nil
			}
			c.applyFile(e)
			return CheckEndpoint(c.Endpoint, r.check)
		})
		if err != nil {
			failed, unstored = append(failed, fmt.Errorf("endpoint %s: %w", e.Name, err)), append(unstored, e.Name)
		}
		if errors.Is(err, ErrReadOnly) { // nor could any other
			for _, other := range endpoints[i+1:] {
				unstored = append(unstored, other.Name)
			}
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unstored = unstored
	return errors.Join(failed...)
}

// setFileSources records what sets each setting of the file's endpoints.
func (r *EndpointRegistry) setFileSources(endpoints []Endpoint, from func(endpoint, setting string) string) {
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
func (r *EndpointRegistry) checkFile(e Endpoint) error {
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

// mayPublish reports whether the caller may publish every query of an endpoint.
func (r *EndpointRegistry) mayPublish(c Caller, endpoint string) (bool, error) {
	if c.Role.Includes(RoleAdmin) {
		return true, nil
	}
	e, err := r.store.Endpoint(endpoint)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return e.AllowPublic, err
}

// HasDefault reports whether requests need not name an endpoint because one is configured
// for them.
func (r *EndpointRegistry) HasDefault() bool { return r.defaultEndpoint != "" }

// Find finds the endpoint that a request names, or the default one.
func (r *EndpointRegistry) Find(name string) (Endpoint, error) {
	if name == "" {
		name = r.defaultEndpoint
	}
	e, err := r.store.Endpoint(name)
	if name != "" && !errors.Is(err, ErrNotFound) {
		return e, err
	}
	all, err := r.store.Endpoints()
	if err != nil {
		return Endpoint{}, err
	}
	if name == "" && len(all) == 1 {
		return all[0], nil
	}
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Name
	}
	r.mu.Lock()
	unstored := slices.Clone(r.unstored)
	r.mu.Unlock()
	if slices.Contains(unstored, name) || len(names) == 0 && len(unstored) > 0 {
		return Endpoint{}, &Problem{Kind: KindUnavailable, Detail: "what the configuration file says of endpoints cannot be stored yet: " +
			"the log says why, such as a disk that is full"}
	}
	if len(names) == 0 {
		return Endpoint{}, WrongField(KindUnknownEndpoint, "/endpoint", "no endpoint is configured yet: add one first")
	}
	return Endpoint{}, WrongField(KindUnknownEndpoint, "/endpoint", "the endpoints are: %s", strings.Join(names, ", "))
}

// EndpointGone returns the problem of a registration at an endpoint that was removed in the meantime.
func EndpointGone(name string) error {
	return WrongField(KindUnknownEndpoint, "/endpoint", "the endpoint %s has been removed", name)
}

// Sources returns the source of each setting of an endpoint, by name. Only an admin gets the file's value of the URL.
func (r *EndpointRegistry) Sources(caller Caller, name string) (map[string]Source, error) {
	c, err := r.store.Configured(name)
	if err != nil {
		return nil, missingEndpoint(name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sources := c.sources(r.fileSources[name])
	if at := sources["url"]; !caller.Role.Includes(RoleAdmin) {
		at.File = nil
		sources["url"] = at
	}
	return sources, nil
}

// RevertEndpoint restores the configuration file's values of the named
// settings, or of all settings if none is named.
func (r *EndpointRegistry) RevertEndpoint(name string, names ...string) (Endpoint, error) {
	for _, n := range names {
		if _, ok := settingFields[n]; !ok {
			return Endpoint{}, WrongField(KindBadEndpoint, "/settings", "%q is not a setting of an endpoint", n)
		}
	}
	if len(names) == 0 {
		names = Settings()
	}
	return r.edit(name, func(c *Configured) error {
		if c.File.URL == "" {
			return &Problem{Kind: KindNotInFile, Detail: "the configuration file does not name the endpoint " + name +
				": there is no value to restore"}
		}
		was := c.Endpoint
		c.revert(names)
		if err := c.checkSecrets(was, names); err != nil {
			return err
		}
		return CheckEndpoint(c.Endpoint, r.check)
	})
}

// SharedURLs returns the names of the endpoints that have the same URL, as groups of two or more.
// Each endpoint has a budget of its own, so their service is asked for the sum of them.
func SharedURLs(all []Endpoint) (groups [][]string) {
	byURL := map[string][]string{}
	for _, e := range all {
		at := CanonicalURL(e.URL)
		byURL[at] = append(byURL[at], e.Name)
	}
	for _, at := range slices.Sorted(maps.Keys(byURL)) {
		if len(byURL[at]) > 1 {
			slices.Sort(byURL[at])
			groups = append(groups, byURL[at])
		}
	}
	return groups
}

// CanonicalURL returns the one form of URLs that differ in the case of the host, in a port that is
// the default one, or in an empty path.
func CanonicalURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if defaults := map[string]string{"http": ":80", "https": ":443"}; defaults[u.Scheme] != "" {
		u.Host = strings.TrimSuffix(u.Host, defaults[u.Scheme])
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}
