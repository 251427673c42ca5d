package webhook

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// SecretPrefix is the prefix of secrets; base64 follows.
const SecretPrefix = "whsec_"

// MaxGrace is the longest time for which an old secret signs beside a new one.
const MaxGrace = 30 * 24 * time.Hour

// maxPerHost is the maximum number of subscriptions to callbacks of one host that is
// not in a listed network.
const maxPerHost = 1000

// A Manager registers and edits webhooks. Its errors are *registry.Problem if the
// caller can act on them.
type Manager struct {
	Engine *deliver.Engine
	Guard  *deliver.Guard
	Target *Target
	// Resolve finds a query by id or by a name.
	Resolve  func(c registry.Caller, ref string) (registry.Query, error)
	MostEach int // webhooks of one caller; 0: 1,000
}

// Create registers a webhook. Its endpoint is asked at once, and again on the usual
// schedule, until it answers 2xx. Nothing else is sent before that.
func (m *Manager) Create(c registry.Caller, r registry.WebhookRequest) (registry.Subscription, error) {
	s, err := m.draft(c, r)
	if err != nil {
		return s, err
	}
	host, err := m.Guard.Check(r.URL)
	if err != nil {
		return s, registry.BadSetting("/url", "url cannot be called: %v", err)
	}
	n, done := m.Engine.Claim(s.ID, registry.Webhook, c.Name, host)
	defer done()
	if n.Host >= maxPerHost && !m.Engine.Trusted(host) {
		return s, &registry.Problem{Kind: registry.KindLimit, Detail: "there are too many subscriptions towards this host"}
	}
	if err := n.Admit(cmp.Or(m.MostEach, 1000), "webhooks"); err != nil {
		return s, err
	}
	return m.Engine.Edit(s.ID, func(into *registry.Subscription, _ bool) error {
		*into = s
		return nil
	})
}

func (m *Manager) draft(c registry.Caller, r registry.WebhookRequest) (s registry.Subscription, err error) {
	now := m.Target.opts.Now().UTC()
	s = registry.Subscription{ID: "wh_" + strings.ToLower(rand.Text()), Way: registry.Webhook, Caller: c.Name, Name: r.Name,
		Tag: r.Tag, Endpoint: r.Endpoint,
		Callback: r.URL, State: registry.Pending, CreatedAt: now, Intent: &registry.Intent{Mode: "verify", Secret: rand.Text(), At: now}}
	if len(r.Name) > 256 {
		return s, registry.BadSetting("/name", "a name has at most 256 bytes")
	}
	if r.Tag != "" {
		err = registry.CheckTag("/tag", r.Tag)
	}
	if err == nil && r.Endpoint != "" {
		err = registry.CheckEndpointName("/endpoint", r.Endpoint)
	}
	if err != nil {
		return s, err
	}
	if r.Query != "" {
		if r.Tag != "" || r.Endpoint != "" {
			return s, registry.BadSetting("/query", "say either query, or tag and endpoint")
		}
		q, err := m.Resolve(c, r.Query)
		if errors.Is(err, registry.ErrNotFound) {
			return s, registry.UnknownQuery("/query", r.Query)
		} else if err != nil {
			return s, err
		}
		s.Query = q.ID
	} else if s.Cursor, err = m.Target.opts.Head(); err != nil {
		return s, err
	}
	if s.Filter, err = m.filter(c, s.Query, r.Filter); err != nil {
		return s, err
	}
	if s.Rate, err = rate(r.Rate); err != nil {
		return s, err
	}
	key, err := NewSecret(r.Secret)
	s.Secrets = []registry.Secret{{Key: key}}
	return s, err
}

func rate(r registry.Duration) (registry.Duration, error) {
	if r > registry.Duration(cursor.MaxRate) {
		return 0, registry.BadSetting("/rate", "rate is at most 24h")
	}
	return r, nil
}

func (m *Manager) filter(c registry.Caller, query string, raw json.RawMessage) (json.RawMessage, error) {
	f, err := cursor.ParseFilter(raw)
	if err != nil {
		return nil, registry.BadSetting("/filter", "%v", err)
	}
	if f.All() {
		return nil, nil
	}
	if query == "" {
		if f.ByRow() {
			return nil, registry.BadSetting("/filter", "vars and where need a query")
		}
		return raw, nil
	}
	q, err := m.Resolve(c, query)
	if err != nil {
		return nil, err
	}
	if err := f.Fits(&q); err != nil {
		return nil, registry.BadSetting("/filter", "%v", err)
	}
	return raw, nil
}

// NewSecret checks the caller's secret, or makes one if none is given.
func NewSecret(given string) (string, error) {
	if given == "" {
		b := make([]byte, 32)
		rand.Read(b) // never fails
		return SecretPrefix + base64.StdEncoding.EncodeToString(b), nil
	}
	text, ok := strings.CutPrefix(given, SecretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || strings.ContainsAny(text, "\r\n") /* which the decoder skips */ || err != nil || len(key) < 24 || len(key) > 64 {
		return "", registry.BadSetting("/secret", "a secret is %s and the base64 of 24 to 64 bytes", SecretPrefix)
	}
	return given, nil
}

func (m *Manager) edit(id string, do func(s *registry.Subscription) error) (registry.Subscription, error) {
	return m.Engine.Edit(id, func(s *registry.Subscription, found bool) error {
		if !found || s.Way != registry.Webhook {
			return fmt.Errorf("webhook: %w", registry.ErrNotFound)
		}
		return do(s)
	})
}

// Update edits a webhook.
func (m *Manager) Update(c registry.Caller, id string, e registry.WebhookEdit) (registry.Subscription, error) {
	old, err := m.Engine.Subscription(id)
	if err != nil {
		return old, err
	}
	var filter json.RawMessage
	if e.Filter != nil {
		if filter, err = m.filter(c, old.Query, *e.Filter); err != nil {
			return old, err
		}
	}
	if e.Rate != nil {
		if *e.Rate, err = rate(*e.Rate); err != nil {
			return old, err
		}
	}
	if e.Name != nil && len(*e.Name) > 256 {
		return old, registry.BadSetting("/name", "a name has at most 256 bytes")
	}
	return m.edit(id, func(s *registry.Subscription) error {
		if e.Name != nil {
			s.Name = *e.Name
		}
		if e.Rate != nil {
			s.Rate = *e.Rate
		}
		if e.Filter != nil && string(filter) != string(s.Filter) {
			// The receiver has to start again, because other changes are withheld now.
			s.Filter, s.Seen = filter, registry.Position{}
			if s.Outbox != nil && s.Outbox.Query == "" { // the cursor is past the change of any other
				s.Outbox = nil
			}
			if s.Query != "" {
				s.Cursor = registry.Position{}
			}
			for i := range s.Withheld {
				s.Withheld[i].Fresh = true
			}
		}
		return nil
	})
}

// Rotate gives a webhook a new secret. The previous one also signs during the grace
// period; older ones are dropped.
func (m *Manager) Rotate(id, secret string, grace time.Duration) (registry.Subscription, error) {
	key, err := NewSecret(secret)
	if err != nil {
		return registry.Subscription{}, err
	}
	if grace < 0 || grace > MaxGrace {
		return registry.Subscription{}, registry.BadSetting("/grace", "grace lies between 0s and %v", MaxGrace)
	}
	until := m.Target.opts.Now().Add(grace).UTC()
	return m.edit(id, func(s *registry.Subscription) error {
		secrets := []registry.Secret{{Key: key}}
		if len(s.Secrets) > 0 { // a damaged store may have lost them
			old := s.Secrets[0]
			if old.Key == key {
				return registry.Conflict("this is the secret already")
			}
			old.Until = &until
			secrets = append(secrets, old)
		}
		s.Secrets = secrets
		return nil
	})
}

// Replay sends dead letters, or the changes after a position, again.
func (m *Manager) Replay(id string, r registry.Replay) (registry.Subscription, error) {
	if r.After == nil {
		return m.Engine.Resend(id, r.ID)
	}
	return m.edit(id, func(s *registry.Subscription) error {
		if err := deliver.Sendable(s); err != nil {
			return err
		}
		if r.ID != "" {
			return registry.BadSetting("/id", "say either id or after")
		}
		s.Cursor, s.Seen, s.Outbox, s.Withheld = *r.After, registry.Position{}, nil, nil
		s.NextTry, s.Failures = nil, 0
		return nil
	})
}
