package web

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// A complexMemory keeps profiles and rounds in memory.
type complexMemory struct {
	mu       sync.Mutex
	profiles map[string]registry.Profile
	rounds   map[string][]registry.Round
	missing  []string
}

var (
	_ registry.ProfileStore = (*complexMemory)(nil)
	_ Profiles              = (*complexMemory)(nil)
)

func (m *complexMemory) Profile(id string) (registry.Profile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.profiles[id]; ok {
		return p, nil
	}
	return registry.Profile{}, registry.ErrNotFound
}

func (m *complexMemory) EditProfile(id string, _ registry.Bounds, edit func(*registry.Profile, bool) error) (registry.Profile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, found := m.profiles[id]
	p.ID = id
	if err := edit(&p, found); err != nil {
		return p, err
	}
	if len(p.Items) == 0 {
		delete(m.profiles, id)
	} else {
		m.profiles[id] = p
	}
	return p, nil
}

func (m *complexMemory) FindProfile(owner, name string, most int) (list []registry.Profile, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.profiles)) {
		if p := m.profiles[id]; p.Name == name && name != "" && (owner == "" || p.Owner == owner) && len(list) < most {
			list = append(list, p)
		}
	}
	return list, nil
}

func (m *complexMemory) ListProfiles(f registry.ProfileFilter, cursor string, limit int) (items []registry.ListedProfile,
	next string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.profiles)) {
		p := m.profiles[id]
		if id <= cursor || f.Endpoint != "" && p.Endpoint != f.Endpoint || f.Owner != "" && p.Owner != f.Owner ||
			!strings.Contains(p.Name, f.Text) {
			continue
		}
		if len(items) == limit {
			return items, items[limit-1].Profile.ID, nil
		}
		items = append(items, m.item(p))
	}
	return items, "", nil
}

func (m *complexMemory) item(p registry.Profile) registry.ListedProfile {
	s := registry.ProfileStatus{Position: registry.Position{Epoch: epoch}, Rounds: uint64(len(m.rounds[p.ID])), Missing: m.missing}
	for _, r := range m.rounds[p.ID] {
		switch r.State {
		case registry.RoundCaptured:
			s.Seq++
		case registry.RoundExpired:
			s.Expired++
		default:
			s.Open++
		}
	}
	return registry.ListedProfile{Profile: p, Status: s}
}

func (m *complexMemory) ProfileItem(id string) (registry.ListedProfile, error) {
	p, err := m.Profile(id)
	if err != nil {
		return registry.ListedProfile{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.item(p), nil
}

func (m *complexMemory) Rounds(id string, state registry.RoundState, before uint64, limit int) (list []registry.Round,
	next uint64, err error) {
	for _, r := range slices.Backward(m.rounds[id]) {
		if before > 0 && r.Number >= before || state != "" && r.State != state {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].Number, nil
		}
		list = append(list, r)
	}
	return list, 0, nil
}

func (m *complexMemory) Captured(id string, p registry.Position, limit int) (list []registry.RoundEnd, err error) {
	if p.Epoch != epoch {
		return nil, &registry.GapError{Reason: registry.OtherEpoch}
	}
	for _, r := range m.rounds[id] {
		if r.Position.Seq > p.Seq && len(list) < limit {
			list = append(list, registry.RoundEnd{Round: r})
		}
	}
	slices.SortFunc(list, func(a, b registry.RoundEnd) int { return cmp.Compare(a.Position.Seq, b.Position.Seq) })
	return list, nil
}

const secondText = "SELECT ?b WHERE { ?b <http://example.org/q> ?c }"

func profileBody(a, b string) string {
	return fmt.Sprintf(`{"name":"oil","window":"10m","items":[{"query":%q,"when":{"changed":%q,"where":[{"var":"b",`+
		`"op":"contains","value":"oil"}]}},
		{"query":%q,"when":{"every":"5m","slack":"1m"}}]}`, a, b, b)
}

func TestProfiles(t *testing.T) {
	w := newWorld(t)
	a, b := w.register(selectText), w.register(secondText)
	made := w.post("/v1/profiles", profileBody(a, b)).status(201)
	id := fmt.Sprint(made.json()["id"])
	if !strings.HasSuffix(made.Header.Get("Location"), "/v1/profiles/"+id) || made.json()["window"] != "10m0s" ||
		made.json()["state"] != "live" {
		t.Errorf("%s %s", made.Header, made.body)
	}
	if again := w.post("/v1/profiles", strings.Replace(profileBody(a, b), "oil", "gas", 1)).status(200); again.json()["id"] != id ||
		again.json()["name"] != "gas" {
		t.Errorf("the same need: %s", again.body)
	}
	shown := w.get("/v1/profiles/gas").status(200) // by name
	tag := shown.Header.Get("ETag")
	w.do("PATCH", "/v1/profiles/"+id, `{"weight":2}`, "Content-Type: application/json", `If-Match: "other"`).problem(412,
		"precondition-failed")
	patched := w.do("PATCH", "/v1/profiles/"+id, `{"weight":2,"budget":"3s","name":null}`, "Content-Type: application/json",
		"If-Match: "+tag).status(200)
	if p := patched.json(); p["weight"] != 2.0 || p["budget"] != "3s" || p["name"] != "" || patched.Header.Get("ETag") == tag {
		t.Errorf("%s", patched.body)
	}
	w.do("PATCH", "/v1/profiles/"+id, `{"window":"3m"}`, "Content-Type: application/json").problem(400, "malformed")
	if list := w.get("/v1/profiles?endpoint=city").status(200); len(list.json()["profiles"].([]any)) != 1 {
		t.Errorf("%s", list.body)
	}
	w.complex.missing = []string{b}
	if p := w.get("/v1/profiles/" + id).status(200).json(); p["state"] != "broken" {
		t.Errorf("without a query: %v", p)
	}
	w.do("PATCH", "/v1/profiles/"+id, `{"weight":-2}`, "Content-Type: application/json").problem(422, "bad-setting")
	w.do("PATCH", "/v1/profiles/none", `{"weight":2}`, "Content-Type: application/json").problem(404, "not-found")
	w.get("/v1/profiles?limit=0").problem(400, "malformed")
	w.do("DELETE", "/v1/profiles/"+id, "", "If-Match: "+tag).problem(412, "precondition-failed")
	w.do("DELETE", "/v1/profiles/"+id, "").status(204)
	w.get("/v1/profiles/"+id).problem(404, "not-found")
	w.get("/v1/profiles/"+id+"/captures").problem(404, "not-found")
}

// A profile that cannot be captured is refused with a pointer to the setting to change.
func TestProfileProblems(t *testing.T) {
	w := newWorld(t)
	a := w.register(selectText)
	item := func(when string) string {
		return fmt.Sprintf(`{"window":"10m","items":[{"query":%q,"when":%s}]}`, a, when)
	}
	for body, pointer := range map[string]string{
		`{"items":[]}`:                           "/items",
		item(`{}`):                               "/items/0/when",
		item(`{"every":"5m","changed":"x"}`):     "/items/0/when",
		item(`{"every":"5m"}`):                   "/items/0/when/slack",
		item(`{"every":"5m","slack":"1s"}`):      "/items/0/when/slack",
		item(`{"every":"5m","slack":"6m"}`):      "/items/0/when/slack",
		item(`{"predicted":true,"within":"1s"}`): "/items/0/when/within",
		item(fmt.Sprintf(`{"changed":%q,"where":[{"var":"s","op":"like","value":"x"}]}`, a)):             "/items/0/when/where/0",
		item(fmt.Sprintf(`{"changed":%q,"where":[{"var":"price","op":"=","value":"x"}]}`, a)):            "/items/0/when/where/0/var",
		fmt.Sprintf(`{"items":[{"query":%q,"when":"predicted"}]}`, a):                                    "/window",
		fmt.Sprintf(`{"endpoint":"coins","items":[{"query":%q,"when":{"every":"5m","slack":"2m"}}]}`, a): "/endpoint",
	} {
		p := w.post("/v1/profiles", body).problem(422, "bad-profile")
		if !strings.Contains(string(p.body), fmt.Sprintf("%q", pointer)) {
			t.Errorf("%s: %s, want a pointer to %s", body, p.body, pointer)
		}
	}
	for body, pointer := range map[string]string{
		`{"items":[{"query":"nothing","when":{"every":"5m","slack":"2m"}}]}`: "/items/0/query",
		item(`{"changed":"nothing"}`):                                        "/items/0/when/changed",
	} {
		if p := w.post("/v1/profiles", body).problem(422, "unknown-query"); !strings.Contains(string(p.body), fmt.Sprintf("%q", pointer)) {
			t.Errorf("%s: %s, want a pointer to %s", body, p.body, pointer)
		}
	}
	w.post("/v1/profiles", item(`{"every":5}`)).problem(400, "malformed")
}

func TestCaptures(t *testing.T) {
	w := newWorld(t)
	a, b := w.register(selectText), w.register(secondText)
	id := fmt.Sprint(w.post("/v1/profiles", profileBody(a, b)).status(201).json()["id"])
	at := w.m.now
	done := &registry.Execution{Position: registry.Position{Epoch: "e", Seq: 3}, At: at, Slot: 7, Why: "interval"}
	w.complex.rounds[id] = []registry.Round{
		{Profile: id, Number: 1, State: registry.RoundCaptured, OpenedAt: at, Slot: 7, EndedAt: at, EndedSlot: 7,
			Position:  registry.Position{Epoch: epoch, Seq: 1},
			Trigger:   registry.Cause{Query: b, Position: registry.Position{Epoch: "e", Seq: 2}},
			Intervals: []registry.Interval{{Query: a, From: at, Until: at.Add(time.Minute), Done: done}, {Query: b, First: 7, Last: 8, Done: done}}},
		{Profile: id, Number: 2, State: registry.RoundExpired, OpenedAt: at, Slot: 8, EndedAt: at, EndedSlot: 9, Reason: "x",
			Intervals: []registry.Interval{{Query: a, From: at, Until: at, Reason: "x"}, {Query: b}}},
		{Profile: id, Number: 3, State: registry.RoundOpen, OpenedAt: at, Slot: 9, Intervals: []registry.Interval{{Query: a},
			{Query: b, From: at.Add(time.Hour), Until: at.Add(2 * time.Hour)}}},
	}
	states := func(path string) (got []string) {
		for _, r := range w.get(path).status(200).json()["rounds"].([]any) {
			m := r.(map[string]any)
			s := fmt.Sprint(m["round"], " ", m["state"])
			for _, i := range m["intervals"].([]any) {
				s += fmt.Sprint(" ", i.(map[string]any)["state"])
			}
			got = append(got, s)
		}
		return got
	}
	path := "/v1/profiles/" + id + "/captures"
	all := []string{"3 open waiting to_come", "2 expired expired dropped", "1 captured captured captured"}
	if got := states(path); !slices.Equal(got, all) {
		t.Errorf("all: %v", got)
	}
	if got := states(path + "?state=expired"); !slices.Equal(got, all[1:2]) {
		t.Errorf("expired: %v", got)
	}
	page := w.get(path + "?limit=2").status(200)
	if page.json()["next"] != "2" || !strings.Contains(page.Header.Get("Link"), "cursor=2") {
		t.Errorf("next: %s %s", page.Header, page.body)
	}
	if got := states(path + "?limit=2&cursor=2"); !slices.Equal(got, all[2:]) {
		t.Errorf("second page: %v", got)
	}
	if got := states(path + "?after=" + epoch + ":0"); !slices.Equal(got, all[2:]) {
		t.Errorf("the log: %v", got)
	}
	w.get(path+"?after=other:0").problem(410, "gap")
	w.get(path+"?state=lost").problem(400, "malformed")
	w.get(path+"?cursor=x").problem(400, "malformed")
	if a := w.get(path, "Accept: text/event-stream").status(200); string(a.body) != "data: profile "+id+"\n\n" {
		t.Errorf("the stream: %q", a.body)
	}
	w.get(path, "Accept: image/png").problem(406, "not-acceptable")
}
