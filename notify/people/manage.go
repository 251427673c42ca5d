package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// A Manager registers receivers, and sends test messages. Its errors are *registry.Problem if the
// caller can act on them.
type Manager struct {
	Engine *deliver.Engine
	Guard  *deliver.Guard
	Target *Target
	// Resolve finds a query by id or by a name.
	Resolve  func(c registry.Caller, ref string) (registry.Query, error)
	MostEach int // receivers of one caller; 0: 1,000
}

func (m *Manager) check(address string) (to registry.Receiver, err error) {
	if to.Address = strings.TrimPrefix(address, "mailto:"); to.Address != address {
		to.Kind, err = email, m.Target.opts.Mail.Check(to.Address)
	} else if k, complete, wrong := service.Find("", address); wrong != nil {
		err = wrong
	} else {
		to = registry.Receiver{Kind: k.Name, Address: complete}
		_, err = m.Guard.Check(service.Base(complete))
	}
	if err != nil {
		return to, registry.BadSetting("/notify", "the address cannot be used: %v", err)
	}
	return to, nil
}

// Create tells a receiver the changes of a query from now on. The same receiver of the same query gets the
// new settings, and goes on from where it is.
func (m *Manager) Create(c registry.Caller, r registry.ReceiverRequest) (registry.Subscription, error) {
	to, err := m.check(r.Address)
	if err != nil {
		return registry.Subscription{}, err
	}
	if _, err := service.ReadQuiet(r.Quiet); err != nil {
		return registry.Subscription{}, registry.BadSetting(quietPointer(err), "%v", err)
	}
	if r.Repeat != "" {
		return registry.Subscription{}, registry.BadSetting("/repeat", "repeat is of the receivers of rules: an alert goes on, a change does not")
	}
	if len(r.Name) > 256 {
		return registry.Subscription{}, registry.BadSetting("/name", "a name has at most 256 bytes")
	}
	if r.Query == "" {
		return registry.Subscription{}, registry.BadSetting("/query", "query is missing: the id or the name of a registered query")
	}
	q, err := m.Resolve(c, r.Query)
	if errors.Is(err, registry.ErrNotFound) {
		return registry.Subscription{}, registry.UnknownQuery("/query", r.Query)
	} else if err != nil {
		return registry.Subscription{}, err
	}
	if !c.MayRead(&q) {
		return registry.Subscription{}, &registry.Problem{Kind: registry.KindForbidden, Detail: "your token may not read this query"}
	}
	st, _, err := m.Target.opts.Log.Current(q.ID, false)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return registry.Subscription{}, err
	}
	to.Quiet = r.Quiet
	made := registry.Subscription{ID: id(c.Name, q.ID, to.Address), Way: registry.People, Caller: c.Name, Name: r.Name, Query: q.ID,
		Title: m.Target.title(&q, c.Name), To: &to, Callback: to.Masked(),
		State: registry.Active, CreatedAt: m.Target.opts.Now().UTC(), Cursor: st.Position}
	if to.Kind == email {
		made.Callback = "mailto:" + made.Callback
	}
	if !m.Engine.Has(made.ID) {
		n, done := m.Engine.Claim(made.ID, registry.People, c.Name, "")
		defer done()
		if err := n.Admit(cmp.Or(m.MostEach, 1000), "receivers"); err != nil {
			return registry.Subscription{}, err
		}
	}
	s, err := m.Engine.Edit(made.ID, func(s *registry.Subscription, found bool) error {
		if !found {
			*s = made
			return nil
		}
		s.To, s.Name, s.Title = made.To, cmp.Or(made.Name, s.Name), made.Title
		if s.State == registry.Disabled {
			s.State, s.Reason, s.Cursor, s.Outbox = registry.Active, "", made.Cursor, nil
			s.NextTry, s.Failures, s.FailingSince = nil, 0, nil
		}
		return nil
	})
	if err == nil {
		m.Engine.CountKind(registry.People, to.Kind)
	}
	return s, err
}

// quietPointer points to the setting that an error of service.ReadQuiet names first.
func quietPointer(err error) string {
	name, _, _ := strings.Cut(err.Error(), " ")
	return "/" + name
}

// PushKey returns what browsers subscribe with.
func (m *Manager) PushKey() (string, error) {
	key, err := m.Target.opts.PushKey()
	if err != nil {
		return "", err
	}
	return service.PublicPushKey(key)
}

// Test sends a test message to an address at once. The error says why it did not arrive.
func (m *Manager) Test(ctx context.Context, c registry.Caller, address string) (kind string, err error) {
	to, err := m.check(address)
	if err != nil {
		return "", err
	}
	now := m.Target.opts.Now()
	send, err := m.Target.sending(&registry.Subscription{To: &to}, service.Message{ID: fmt.Sprintf("test_%d", now.UnixNano()),
		At: now, Title: "Test message of Freshet",
		Text: "Changes that you follow will come here.", Link: m.Target.opts.PublicURL})
	if err != nil {
		return "", err
	}
	r, err := m.Engine.Try(ctx, c.Name, send)
	if err != nil {
		return "", err
	}
	if !r.OK() {
		return "", &registry.Problem{Kind: registry.KindBadSetting, Title: "The test message did not arrive",
			Detail: r.Problem(), Errors: []registry.FieldError{{Pointer: "/notify", Detail: r.Problem()}}}
	}
	return to.Kind, nil
}
