package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/catalog"
	"go.etcd.io/bbolt"
)

// An EndpointStore stores endpoints. It implements registry.EndpointStore.
type EndpointStore struct {
	*boltFile
	mu      sync.Mutex
	decoded map[string]decodedEndpoint // by name
}

// A decodedEndpoint is an endpoint with the stored bytes that it was decoded from.
type decodedEndpoint struct {
	stored []byte
	registry.Endpoint
}

// mostDecoded bounds the endpoints that are kept decoded.
const mostDecoded = 1000

// Endpoint implements registry.EndpointStore. It decodes what is stored only if that differs from the last time,
// since each registration and each view of a query reads an endpoint.
func (d *EndpointStore) Endpoint(name string) (registry.Endpoint, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (registry.Endpoint, error) {
		stored := endpointValue(tx, name)
		d.mu.Lock()
		defer d.mu.Unlock()
		if known, ok := d.decoded[name]; ok && bytes.Equal(known.stored, stored) {
			return known.Clone(), nil
		}
		c, err := findEndpoint(tx, name)
		if err != nil {
			return registry.Endpoint{}, err
		}
		if len(d.decoded) >= mostDecoded {
			clear(d.decoded)
		}
		d.decoded[name] = decodedEndpoint{bytes.Clone(stored), c.Endpoint.Clone()}
		return c.Endpoint, nil
	})
}

func (d *EndpointStore) Configured(name string) (registry.Configured, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (registry.Configured, error) { return findEndpoint(tx, name) })
}

func (d *EndpointStore) Endpoints() (list []registry.Endpoint, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bEndpoints).ForEach(func(name, _ []byte) error {
			c, err := findEndpoint(tx, string(name))
			list = append(list, c.Endpoint)
			return err
		})
	})
	return list, err
}

// EditEndpoint implements registry.EndpointStore. Deletion removes the endpoint and its
// queries at once, however many there are; their history is purged later.
func (d *EndpointStore) EditEndpoint(name string, edit func(c *registry.Configured, found bool) error) (registry.Endpoint, error) {
	var e *endpointEdit
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) {
		e = &endpointEdit{Name: name, At: d.now().UTC()}
		if err := e.prepare(tx, edit); err != nil || e.found || e.removes() {
			return e, err
		}
		return e, d.disk.room()
	})
	if err != nil {
		return registry.Endpoint{}, err
	}
	return e.now.Endpoint, nil
}

// An endpointEdit is an endpoint before and after an edit. It is a command.
type endpointEdit struct {
	was, now registry.Configured
	found    bool
	Name     string
	Seen     revision        // of was
	Value    json.RawMessage `json:",omitempty"` // now, as stored; nil if the endpoint is removed
	At       time.Time
	// Linger is the timeout of requests that run now and may outlast those of the edited endpoint: its timeout is
	// shorter, or it is removed. The lease says for how long.
	Linger time.Duration `json:",omitempty"`
}

// prepare reads the endpoint and edits it in memory. It returns errUnchanged if the edit has
// no effect; the health then has none either, since it follows from the settings alone.
func (e *endpointEdit) prepare(tx *bbolt.Tx, edit func(c *registry.Configured, found bool) error) error {
	name := e.Name
	was, err := findEndpoint(tx, name)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	stored := tx.Bucket(bEndpoints).Get([]byte(name))
	e.was, e.found, e.Seen = was, err == nil, revisionOf(stored)
	if e.now = was; !e.found {
		e.now = registry.Configured{Endpoint: registry.Endpoint{Name: name}}
	}
	if err := edit(&e.now, e.found); err != nil {
		return err
	}
	if e.now.Endpoint.Name != name || name == "" {
		return fmt.Errorf("endpoint %q: its name cannot be edited, nor left empty", name)
	}
	removed := e.now.Endpoint.URL == ""
	if e.found && (removed || e.now.Endpoint.Timeout < was.Endpoint.Timeout) {
		e.Linger = time.Duration(was.Endpoint.Timeout)
	}
	if removed {
		return nil
	}
	if e.Value, err = json.Marshal(&e.now); err != nil {
		return fmt.Errorf("endpoint %s: %w", name, err)
	}
	if bytes.Equal(e.Value, stored) {
		return errUnchanged
	}
	return nil
}

func (e *endpointEdit) kind() byte { return kindEndpoint }

func (e *endpointEdit) Resume(tx *bbolt.Tx) (err error) {
	if revisionOf(tx.Bucket(bEndpoints).Get([]byte(e.Name))) != e.Seen {
		return errMoved
	}
	if !e.removes() {
		if err := parseJSON(e.Value, &e.now, "endpoint "+e.Name); err != nil {
			return err
		}
	}
	e.was, err = findEndpoint(tx, e.Name)
	e.found = err == nil
	return notFoundIsFine(err)
}

func (e *endpointEdit) frees() bool { return e.removes() }

func (e *endpointEdit) removes() bool { return e.Value == nil }

func (e *endpointEdit) Apply(tx *bbolt.Tx) error {
	if e.Linger > 0 || e.removes() {
		if err := e.release(tx); err != nil {
			return err
		}
	}
	if e.removes() {
		return removeEndpoint(tx, e.Name)
	}
	if e.found {
		if err := e.keepHealth(tx); err != nil {
			return err
		}
	}
	return putEndpoint(tx, e.Name, e.Value)
}

// release notes in the lease that requests may run that began before the edit. The lease of a removed
// endpoint gets the next token, so the session that has it can only give it back.
func (e *endpointEdit) release(tx *bbolt.Tx) error {
	l, err := findLease(tx, EndpointLease(e.Name))
	if err != nil {
		return err
	}
	l.Linger = max(l.Linger, e.Linger)
	held := l.Session != "" && e.Linger > 0
	switch {
	case held && e.removes():
		return putLease(tx, &l)
	case held:
		return putJSON(tx.Bucket(bLeases), []byte(l.Key), &l)
	case e.removes():
		return forgetLease(tx, l.Key)
	}
	return nil
}

// endpointValue returns an endpoint as stored, nil if there is none of the name.
func endpointValue(tx *bbolt.Tx, name string) []byte {
	if name == "" {
		return nil
	}
	return tx.Bucket(bEndpoints).Get([]byte(name))
}

// needsEndpoint returns a problem if what is registered needs an endpoint that is not stored. "" is none.
func needsEndpoint(tx *bbolt.Tx, endpoint string) error {
	if endpoint == "" || endpointValue(tx, endpoint) != nil {
		return nil
	}
	return registry.EndpointGone(endpoint)
}

func findEndpoint(tx *bbolt.Tx, name string) (registry.Configured, error) {
	var c registry.Configured
	v := endpointValue(tx, name)
	if v == nil {
		return c, fmt.Errorf("endpoint %s: %w", name, registry.ErrNotFound)
	}
	if err := parseJSON(v, &c, "endpoint "+name); err != nil {
		return c, err
	}
	// Settings that did not exist when the endpoint was stored have their defaults.
	c.Endpoint = c.Endpoint.WithDefaults()
	if c.File.URL != "" {
		c.File = c.File.WithDefaults()
	}
	return c, nil
}

func putEndpoint(tx *bbolt.Tx, name string, v []byte) error {
	n := loadCounters(tx)
	s, err := ensureSpace(tx, &n, name)
	if err != nil {
		return err
	}
	return errors.Join(s.save(tx), n.save(tx), tx.Bucket(bEndpoints).Put([]byte(name), v))
}

func removeEndpoint(tx *bbolt.Tx, name string) error {
	if err := tx.Bucket(bEndpoints).Delete([]byte(name)); err != nil {
		return err
	}
	s, ok := findSpace(tx, name)
	if !ok {
		return nil
	}
	c := loadCounters(tx)
	c.queries -= s.queries
	c.revision++ // a reader at an earlier revision learns that all queries are removed
	return errors.Join(
		c.save(tx),
		tx.Bucket(bSpaces).Delete([]byte(name)),
		tx.Bucket(bOwners).Delete(key8(s.number)),
		tx.Bucket(bPurge).Put(purgeKey(purgeSpace, s.number), nil),
	)
}

// keepHealth preserves the part of an endpoint's health that remains valid after an edit.
// It records when the edit changes executions, so that back-off need not continue.
func (e *endpointEdit) keepHealth(tx *bbolt.Tx) error {
	was, now := e.was.Endpoint, e.now.Endpoint
	s, ok := findSpace(tx, now.Name)
	if !ok {
		return nil
	}
	if registry.RequestsDiffer(was, now) {
		if err := tx.Bucket(bHealth).Put(editedKey(s.number), putTime(nil, e.At)); err != nil {
			return err
		}
	}
	h, err := loadHealth(tx.Bucket(bHealth), s.number)
	if rest := h.AfterEdit(was, now); err == nil && rest != h {
		err = saveHealth(tx, s.number, rest)
	}
	return err
}

func editedKey(space uint64) []byte { return append(key8(space), "edited"...) }

func loadEdited(health *bbolt.Bucket, space uint64) time.Time {
	v := health.Get(editedKey(space))
	if v == nil {
		return time.Time{}
	}
	in := scan{b: v}
	return in.time()
}

func loadHealth(health *bbolt.Bucket, space uint64) (h registry.Health, err error) {
	_, err = getJSON(health, key8(space), &h, "the health of an endpoint")
	return h, err
}

func saveHealth(tx *bbolt.Tx, space uint64, h registry.Health) error {
	return putJSON(tx.Bucket(bHealth), key8(space), h)
}

func (e *endpointEdit) relist(c *catalog.Catalog) []string {
	if e.removes() {
		return c.Of(e.Name)
	}
	return nil
}

func (e *endpointEdit) touch(o *Others) { o.Endpoints.add(e.Name) }
