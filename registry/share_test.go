package registry_test

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

var carol = registry.Caller{Name: "carol", Role: registry.RoleApp}

const shared = "ASK { ?s ?p ?o }"

// later lets a minute pass, so that registrations have an order.
func (r *rig) later() { r.now = r.now.Add(time.Minute) }

// joins registers the shared query.
func (r *rig) joins(t *testing.T, c registry.Caller, public bool) registry.Query {
	t.Helper()
	r.later()
	return r.must(t, c, registry.Registration{Text: shared, Public: public})
}

func (r *rig) query(t *testing.T, id string) registry.Query {
	t.Helper()
	q, err := r.Query(id)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A query runs while a holder wants it; a pause ends with its registration.
func TestPauseBelongsToItsHolder(t *testing.T) {
	r := newRig(t, registry.Limits{})
	q := r.joins(t, alice, false)
	r.joins(t, bob, false)
	weight, staleness := 9.0, registry.Duration(time.Minute)
	if _, err := r.Patch(bob, q.ID, registry.Patch{Weight: &weight, MaxStaleness: &staleness, MinInterval: &staleness}); err != nil {
		t.Fatal(err)
	}
	got, err := r.Pause(bob, q.ID)
	if err != nil || got.Paused() != nil || !got.Active(r.now) {
		t.Fatalf("one of two paused it: %+v, %v", got.Paused(), err)
	}
	if got.PausedFor(bob) == nil || got.PausedFor(alice) != nil {
		t.Errorf("for bob %v, for alice %v", got.PausedFor(bob), got.PausedFor(alice))
	}
	if got.Weight() != 1 || got.MaxStaleness() != 0 || got.MinInterval() != 0 {
		t.Errorf("the settings of a holder who paused it count: %v %v %v", got.Weight(), got.MaxStaleness(), got.MinInterval())
	}
	r.later()
	got, err = r.Pause(alice, q.ID)
	if p := got.Paused(); err != nil || p == nil || p.By != "alice" || p.All || got.Active(r.now) {
		t.Fatalf("both paused it: %+v, %v", p, err)
	}
	if got.Weight() != 9 {
		t.Errorf("weight %v of a paused query", got.Weight())
	}
	if got = r.joins(t, bob, false); got.Paused() == nil {
		t.Error("registering again ended a pause")
	}
	if err := r.Release(alice, q.ID, false); err != nil {
		t.Fatal(err)
	}
	if got = r.query(t, q.ID); got.Paused() == nil || got.Paused().By != "bob" {
		t.Errorf("after alice let go: %+v", got.Paused())
	}
	if got = r.joins(t, carol, false); got.Paused() != nil {
		t.Errorf("a new holder wants it: %+v", got.Paused())
	}
	if err := r.Release(bob, q.ID, false); err != nil {
		t.Fatal(err)
	}
	if h := r.query(t, q.ID).Holders; len(h) != 1 || h[0].Pause != nil {
		t.Errorf("what bob paused: %+v", h)
	}
}

// Any holder who wants a query to be asked alone decides for all.
func TestAloneDecidesForAll(t *testing.T) {
	r := newRig(t, registry.Limits{})
	q := r.joins(t, alice, false)
	if q.Alone() {
		t.Error("no holder wants it alone")
	}
	if q = r.must(t, bob, registry.Registration{Text: shared, Alone: true}); !q.Alone() {
		t.Error("bob wants it alone")
	}
	if q = r.joins(t, carol, false); !q.Alone() {
		t.Error("a later holder undid what bob wants")
	}
	if q, err := r.Pause(bob, q.ID); err != nil || q.Alone() {
		t.Errorf("a holder who paused it still decides: %v", err)
	}
	if q, err := r.Resume(bob, q.ID); err != nil || !q.Alone() {
		t.Errorf("bob resumed it: %v", err)
	}
	no := false
	if q, err := r.Patch(bob, q.ID, registry.Patch{Alone: &no}); err != nil || q.Alone() {
		t.Errorf("bob changed his mind: %v", err)
	}
}

// An admin's pause is for all holders and ends by an admin alone.
func TestAdminPausesForAll(t *testing.T) {
	r := newRig(t, registry.Limits{})
	q := r.joins(t, alice, false)
	if _, err := r.Pause(alice, q.ID); err != nil {
		t.Fatal(err)
	}
	got, err := r.Pause(admin, q.ID)
	if p := got.Paused(); err != nil || p == nil || p.By != "ops" || !p.All {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := r.Resume(alice, q.ID); problem(t, err).Kind != registry.KindConflict {
		t.Errorf("a holder resumes what an admin paused: %v", err)
	}
	if got = r.joins(t, bob, false); got.Paused() == nil {
		t.Error("a new holder ended an admin's pause")
	}
	if err := r.Release(bob, q.ID, false); err != nil {
		t.Fatal(err)
	}
	if got, err = r.Resume(admin, q.ID); err != nil || got.Paused() == nil || got.Paused().By != "alice" {
		t.Errorf("the holder's own pause is %+v, %v", got.Paused(), err)
	}
	if got, err = r.Resume(admin, q.ID); err != nil || got.Paused() != nil {
		t.Errorf("an admin lifts holders' pauses: %+v, %v", got.Paused(), err)
	}
}

// No later holder publishes or hides what an earlier holder decided.
func TestWhoPublishes(t *testing.T) {
	yes, no := true, false
	patch := func(r *rig, c registry.Caller, id string, public *bool) error {
		_, err := r.Patch(c, id, registry.Patch{Public: public})
		return err
	}
	forbidden := func(t *testing.T, r *rig, c registry.Caller, id string) {
		t.Helper()
		_, _, err := r.Register(c, registry.Registration{Text: shared, Public: true})
		if p := problem(t, err); p.Kind != registry.KindForbidden || len(p.Errors) != 1 || p.Errors[0].Pointer != "/public" {
			t.Errorf("%s publishes by registering: %v", c.Name, err)
		}
		if q := r.query(t, id); q.Public() {
			t.Errorf("%s published it", c.Name)
		}
	}
	t.Run("private", func(t *testing.T) {
		r := newRig(t, registry.Limits{})
		id := r.joins(t, alice, false).ID
		forbidden(t, r, bob, id)
		if _, held := func() (registry.Holder, bool) { q := r.query(t, id); return q.Holder("bob") }(); held {
			t.Error("a refused registration is stored")
		}
		r.joins(t, bob, false)
		forbidden(t, r, bob, id)
		if problem(t, patch(r, bob, id, &yes)).Kind != registry.KindForbidden {
			t.Error("bob publishes by an edit")
		}
		r.joins(t, carol, false)
		if err := r.Release(alice, id, false); err != nil {
			t.Fatal(err)
		}
		if q := r.query(t, id); q.Public() {
			t.Error("published when alice let go")
		}
		if err := patch(r, bob, id, &yes); err != nil { // it is the longest holder now
			t.Error(err)
		}
		if q := r.query(t, id); !q.Public() {
			t.Error("the longest holder cannot publish")
		}
	})
	t.Run("public", func(t *testing.T) {
		r := newRig(t, registry.Limits{})
		id := r.joins(t, alice, true).ID
		if q := r.joins(t, bob, false); !q.Public() {
			t.Fatal("a second holder hid it")
		}
		if err := patch(r, bob, id, &no); err != nil {
			t.Fatal(err)
		}
		if q := r.joins(t, carol, true); !q.Public() {
			t.Fatal("it is hidden")
		}
		if err := patch(r, alice, id, &no); err != nil {
			t.Fatal(err)
		}
		if q := r.query(t, id); q.Public() {
			t.Fatal("others keep public what its publisher withdrew")
		}
		for _, c := range []registry.Caller{alice, bob} {
			if err := r.Release(c, id, false); err != nil {
				t.Fatal(err)
			}
		}
		if q := r.query(t, id); q.Public() {
			t.Error("a consent from before the withdrawal published it")
		}
	})
	t.Run("consent", func(t *testing.T) {
		r := newRig(t, registry.Limits{})
		id := r.joins(t, alice, true).ID
		r.joins(t, bob, true)
		if err := r.Release(alice, id, false); err != nil {
			t.Fatal(err)
		}
		if q := r.query(t, id); !q.Public() {
			t.Error("bob asked for it when it was public, and holds it longest now")
		}
	})
	t.Run("admin", func(t *testing.T) {
		r := newRig(t, registry.Limits{})
		id := r.joins(t, alice, false).ID
		if q := r.joins(t, admin, true); !q.Public() {
			t.Fatal("an admin cannot publish")
		}
		r.joins(t, admin, true)
		if err := r.Release(admin, id, false); err != nil {
			t.Fatal(err)
		}
		if q := r.query(t, id); q.Public() {
			t.Error("public without the admin's registration")
		}
	})
	t.Run("setting", func(t *testing.T) {
		r := newRig(t, registry.Limits{})
		if _, err := r.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error { e.AllowPublic = true; return nil }); err != nil {
			t.Fatal(err)
		}
		r.joins(t, alice, false)
		if q := r.joins(t, bob, true); !q.Public() {
			t.Error("allow_public does not let a second holder publish")
		}
	})
}
