package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry/sparql"
)

// A ProfileRequest is a request to create a profile.
type ProfileRequest struct {
	Endpoint string   `json:"endpoint"` // "" means the endpoint of the queries
	Name     string   `json:"name"`
	Items    []Item   `json:"items"`
	Window   Span     `json:"window"`
	Budget   Duration `json:"budget"`
	Weight   float64  `json:"weight"`
}

// Limits of profiles.
const (
	maxItems = 32
	maxWhere = 16
)

// A ProfileRegistry keeps profiles.
type ProfileRegistry struct {
	store     ProfileStore
	endpoints *EndpointRegistry
	queries   interface {
		Resolve(c Caller, ref string) (Query, error)
	}
	admissions   *admissions
	slotInterval func(Endpoint) time.Duration // distance between slots; 0: unknown
	edited       func(profile string)
	now          func() time.Time
}

// CreateProfile stores a profile of the caller's. If it exists already, created
// is false, and its name, budget and weight become those of the request. Errors
// that the caller can act on are *Problem.
func (r *ProfileRegistry) CreateProfile(c Caller, req ProfileRequest) (p Profile, created bool, err error) {
	if !c.MayRegister() {
		return Profile{}, false, forbidden("a profile needs a token with the role app or admin")
	}
	if err := r.admissions.limitRate(c); err != nil {
		return Profile{}, false, err
	}
	fresh, err := r.readProfile(c, req)
	if err != nil {
		return Profile{}, false, err
	}
	p, err = r.store.EditProfile(fresh.ID, r.admissions.profileBounds(c, fresh.Endpoint), func(p *Profile, found bool) error {
		if created = !found; created {
			*p = fresh
			p.CreatedAt = r.now().UTC()
			return nil
		}
		p.Name, p.Budget, p.Weight = fresh.Name, fresh.Budget, fresh.Weight
		return nil
	})
	if err == nil {
		r.edited(p.ID)
	}
	return p, created && err == nil, err
}

// Profile returns one profile.
func (r *ProfileRegistry) Profile(id string) (Profile, error) {
	p, err := r.store.Profile(id)
	if errors.Is(err, ErrNotFound) {
		return p, notFound("no profile has this id")
	}
	return p, err
}

// ResolveProfile finds a profile by its id, by the caller's own name for it, or
// by the name that others gave to this profile only; see Resolve.
func (r *ProfileRegistry) ResolveProfile(c Caller, ref string) (Profile, error) {
	find := func(owner string, most int) ([]Profile, error) { return r.store.FindProfile(owner, ref, most) }
	return resolve(c, "profile", ref, r.store.Profile, find, func(p *Profile) string { return p.ID })
}

// A ProfilePatch edits a profile. Nil fields stay unchanged.
type ProfilePatch struct {
	Name   *string   `json:"name"`
	Budget *Duration `json:"budget"`
	Weight *float64  `json:"weight"`
}

// PatchProfile edits the name, budget and weight of a profile.
func (r *ProfileRegistry) PatchProfile(c Caller, id string, patch ProfilePatch) (Profile, error) {
	return r.editProfile(c, id, func(p *Profile) error {
		if patch.Name != nil && *patch.Name != p.Name {
			if err := checkProfileName(*patch.Name); err != nil {
				return err
			}
			p.Name = *patch.Name
		}
		set(&p.Budget, patch.Budget)
		set(&p.Weight, patch.Weight)
		return checkTagsAndWeight(nil, p.Weight)
	})
}

// DeleteProfile deletes a profile with its captures.
func (r *ProfileRegistry) DeleteProfile(c Caller, id string) error {
	_, err := r.editProfile(c, id, func(p *Profile) error {
		p.Items = nil
		return nil
	})
	return err
}

func (r *ProfileRegistry) editProfile(c Caller, id string, edit func(*Profile) error) (Profile, error) {
	p, err := r.store.EditProfile(id, Bounds{}, func(p *Profile, found bool) error {
		switch {
		case !found:
			return notFound("no profile has this id")
		case p.Owner != c.Name && !c.Role.Includes(RoleAdmin):
			return forbidden("the profile is %s's", p.Owner)
		}
		return edit(p)
	})
	if err == nil {
		r.edited(id)
	}
	return p, err
}

// readProfile checks a request and returns the profile that it creates.
func (r *ProfileRegistry) readProfile(c Caller, req ProfileRequest) (Profile, error) {
	p := Profile{Owner: c.Name, Name: req.Name, Window: req.Window, Budget: req.Budget, Weight: req.Weight}
	if err := cmp.Or(checkProfileName(p.Name), checkTagsAndWeight(nil, p.Weight)); err != nil {
		return p, err
	}
	if n := len(req.Items); n == 0 || n > maxItems {
		return p, badProfile("/items", "a profile has 1 to %d items, each {query, when}", maxItems)
	}
	for i, item := range req.Items {
		if err := r.readItem(c, &p, i, item); err != nil {
			return p, err
		}
	}
	if req.Endpoint != "" && req.Endpoint != p.Endpoint {
		return p, badProfile("/endpoint", "the queries are registered at %s: leave endpoint out, or name that one", p.Endpoint)
	}
	e, err := r.endpoints.Endpoint(p.Endpoint)
	if err != nil {
		return p, err
	}
	if err := r.checkSpans(&p, e); err != nil {
		return p, err
	}
	p.ID = profileIdentity(&p)
	return p, nil
}

func checkProfileName(name string) error {
	switch {
	case name == "":
		return nil
	case strings.HasPrefix(name, "p_"), strings.HasPrefix(name, "q_"):
		return WrongField(KindBadSetting, "/name", "a profile's name does not begin with p_ or q_, as ids do")
	case len(name) > maxName, !printable(name), !visible(name):
		return WrongField(KindBadSetting, "/name", "a name has at most %d bytes, all of them printable", maxName)
	}
	return nil
}

// profileIdentity derives a profile's id from its owner and content: the same
// request of the same owner is the same profile.
func profileIdentity(p *Profile) string {
	b, _ := json.Marshal(struct { // cannot fail: spans and strings only
		Owner, Endpoint string
		Items           []Item
		Window          Span
	}{p.Owner, p.Endpoint, p.Items, p.Window})
	sum := sha256.Sum256(b)
	return "p_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15]))
}

func badProfile(pointer, format string, a ...any) *Problem {
	return WrongField(KindBadProfile, pointer, format, a...)
}

// readItem resolves the queries of one item, checks it and adds it to p.
func (r *ProfileRegistry) readItem(c Caller, p *Profile, i int, item Item) error {
	at := fmt.Sprintf("/items/%d", i)
	q, err := r.itemQuery(c, p, at+"/query", item.Query)
	if err != nil {
		return err
	}
	w := item.When
	kinds := 0
	for _, said := range []bool{!w.Every.IsZero(), w.Changed != "", w.Predicted} {
		if said {
			kinds++
		}
	}
	if kinds != 1 {
		return badProfile(at+"/when", "set exactly one of: {every, slack}, {changed, where}, {predicted: true}")
	}
	if w.Every.IsZero() && !w.Slack.IsZero() {
		return badProfile(at+"/when/slack", "slack belongs to every; the length of other intervals is within, else the profile's window")
	}
	if !w.Every.IsZero() && !w.Within.IsZero() {
		return badProfile(at+"/when/within", "the length of periodic intervals is slack")
	}
	if w.Changed == "" && len(w.Where) > 0 {
		return badProfile(at+"/when/where", "conditions belong to changed: they look at the rows that a change adds")
	}
	item.Query = q.ID
	if w.Changed != "" {
		if err := r.readTrigger(c, p, at+"/when", &item.When); err != nil {
			return err
		}
	}
	for j, other := range p.Items {
		if other.Query == item.Query && sameWhen(other.When, item.When) {
			return badProfile(at, "it equals item %d: remove one of them", j)
		}
	}
	p.Items = append(p.Items, item)
	return nil
}

func sameWhen(a, b When) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// itemQuery resolves a query and checks that it belongs to the profile's
// endpoint.
func (r *ProfileRegistry) itemQuery(c Caller, p *Profile, at, ref string) (Query, error) {
	if ref == "" {
		return Query{}, badProfile(at, "name a query by its id or name")
	}
	q, err := r.queries.Resolve(c, ref)
	if errors.Is(err, ErrNotFound) {
		return q, UnknownQuery(at, ref)
	}
	if err != nil {
		return q, err
	}
	if p.Endpoint = cmp.Or(p.Endpoint, q.Endpoint); p.Endpoint != q.Endpoint {
		return q, badProfile(at, "it is registered at %s and other queries of the profile at %s: make one profile for each endpoint",
			q.Endpoint, p.Endpoint)
	}
	return q, nil
}

func (r *ProfileRegistry) readTrigger(c Caller, p *Profile, at string, w *When) error {
	q, err := r.itemQuery(c, p, at+"/changed", w.Changed)
	if err != nil {
		return err
	}
	w.Changed = q.ID
	if len(w.Where) > maxWhere {
		return badProfile(at+"/where", "at most %d conditions", maxWhere)
	}
	for i, cond := range w.Where {
		pointer := fmt.Sprintf("%s/where/%d", at, i)
		if err := cond.Check(); err != nil {
			return badProfile(pointer, "%v", err)
		}
		known := ConditionVars(&q)
		switch {
		case cond.Var == "" && known == nil:
			return badProfile(pointer+"/var", "name a variable of the query that changes")
		case known != nil && !slices.Contains(known, cond.Var):
			return badProfile(pointer+"/var", "the rows of %[2]s have no variable %[1]q; they have %[3]s", cond.Var, q.ID, strings.Join(known, ", "))
		}
	}
	return nil
}

// ConditionVars lists the variables that conditions may name; nil if the text
// does not show them, as in SELECT *.
func ConditionVars(q *Query) []string {
	a, err := sparql.Analyse(q.Text)
	if err != nil || a.Star || len(a.Vars) == 0 {
		return RowVars(q.Form, nil)
	}
	return RowVars(q.Form, a.Vars)
}

// checkSpans checks the lengths of intervals against the distance between the
// endpoint's slots: an interval that no slot falls into cannot be captured.
func (r *ProfileRegistry) checkSpans(p *Profile, e Endpoint) error {
	gap := r.slotInterval(e)
	for i := range p.Items {
		at, w := fmt.Sprintf("/items/%d/when", i), p.Items[i].When
		if !w.Every.IsZero() {
			if err := checkPeriod(at, w, gap); err != nil {
				return err
			}
			continue
		}
		length, pointer := w.Within, at+"/within"
		if length.IsZero() {
			length, pointer = p.Window, "/window"
		}
		if length.IsZero() {
			return badProfile("/window", "set the length of the intervals that a change or a prediction starts, such as \"10m\" or \"3 slots\"")
		}
		if err := checkHoldsSlot(pointer, length, gap); err != nil {
			return err
		}
	}
	return nil
}

func checkPeriod(at string, w When, gap time.Duration) error {
	if (w.Every.Slots > 0) != (w.Slack.Slots > 0) && !w.Slack.IsZero() {
		return badProfile(at+"/slack", "every and slack must both be times or both be numbers of slots")
	}
	if w.Slack.Time > w.Every.Time || w.Slack.Slots >= w.Every.Slots && w.Every.Slots > 0 && !w.Slack.IsZero() {
		return badProfile(at+"/slack", "intervals of one item must not overlap: make slack at most every, or less than every for "+
			"numbers of slots")
	}
	if w.Every.Slots > 0 {
		return nil
	}
	if w.Slack.IsZero() {
		return badProfile(at+"/slack", "set slack: how long after each multiple of %s an execution may end", w.Every)
	}
	return checkHoldsSlot(at+"/slack", w.Slack, gap)
}

func checkHoldsSlot(pointer string, s Span, gap time.Duration) error {
	if s.Slots == 0 && s.Time < gap {
		return badProfile(pointer, "slots are %s apart, and an interval of %s can fall between two of them: make it at least %s", gap, s, gap)
	}
	return nil
}
