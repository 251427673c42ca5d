// Tests and a benchmark of what a change of one alert writes.

package alert_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
)

// wrote makes a rig count the bytes of the states that it stores.
func (r *rig) wrote(bytes *int) {
	r.stop()
	r.wrap = func(s alert.Store) alert.Store {
		return slowStore{s, func(e *registry.RuleEdit) {
			for _, c := range e.States {
				text, err := json.Marshal(c)
				if err != nil {
					r.t.Error(err)
				}
				*bytes += len(text)
			}
		}}
	}
	r.start()
}

// A change of one alert writes this alert and not those that stay. A label that all alerts have is not
// written with each.
func TestOnlyWhatChangesIsWritten(t *testing.T) {
	const many = 1000
	r := newRig(t)
	bytes := 0
	r.wrote(&bytes)
	q := r.log.Add("q", diff.Select, false)
	rows := wide(many, "11")
	r.record(q, rows...)
	v := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", Labels: map[string]string{"s": "?s",
		"team": strings.Repeat("x", 700)}, Summary: "?s is ?value"})
	if v.Firing != many {
		t.Fatalf("%d alerts, %s", v.Firing, v.Reason)
	}
	whole := bytes
	if most := 500 * many; whole > most {
		t.Errorf("%d alerts take %d bytes, more than %d: their common label is among them", many, whole, most)
	}
	bytes = 0
	r.record(q, rows[1:]...)
	until(t, "the evaluation", func() bool { return r.rule(v.ID).State.At.Seq == 2 })
	if one := bytes; one == 0 || one > whole/200 {
		t.Errorf("the end of one of %d alerts writes %d bytes, all of them %d", many, one, whole)
	}
	r.stop()
	r.start()
	list, err := r.Alerts(v.ID, "", "", many)
	if err != nil || len(list) != many-1 || list[0].Labels["team"] == "" || list[0].Labels["s"] == "" ||
		!strings.Contains(list[0].Summary, " is 11") {
		t.Errorf("%d alerts after a restart: %v", len(list), err)
	}
	if v = r.rule(v.ID); v.Firing != many-1 || len(v.State.Events) != 50 || v.State.Events[49].State != registry.AlertResolved ||
		v.State.Events[49].Labels["team"] == "" {
		t.Errorf("after a restart: %+v", v)
	}
}

// Alerts come in pages, each alert once.
func TestPagesOfAlerts(t *testing.T) {
	r := newRig(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, wide(25, "11")...)
	v := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10"})
	seen := map[string]bool{}
	for after := ""; ; {
		page, err := r.Alerts(v.ID, registry.AlertFiring, after, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page {
			seen[a.Labels["s"]] = true
			after = a.ID
		}
		if len(page) == 0 {
			break
		}
	}
	if none, err := r.Alerts(v.ID, registry.AlertPending, "", 10); len(seen) != 25 || len(none) != 0 || err != nil {
		t.Errorf("%d alerts, %d pending: %v", len(seen), len(none), err)
	}
}

// BenchmarkOneOfManyAlerts ends and begins one alert of a thousand. B/change is what a change writes of
// the state, and of-whole how often that goes into the whole state.
func BenchmarkOneOfManyAlerts(b *testing.B) {
	r := newRig(b)
	bytes := 0
	r.wrote(&bytes)
	q := r.log.Add("q", diff.Select, false)
	rows := wide(1000, "11")
	r.record(q, rows...)
	v := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", Labels: map[string]string{"s": "?s",
		"team": "traffic"}, Summary: "?s is ?value"})
	whole := bytes
	bytes = 0
	seq := uint64(1)
	for b.Loop() {
		seq++
		r.record(q, rows[(seq+1)%2:]...)
		until(b, "the evaluation", func() bool { return r.rule(v.ID).State.At.Seq == seq })
	}
	b.ReportMetric(float64(bytes)/float64(seq-1), "B/change")
	b.ReportMetric(float64(whole)*float64(seq-1)/float64(bytes), "of-whole")
	if v := r.rule(v.ID); v.Status != registry.RuleFiring {
		b.Error(fmt.Sprint(v.Status, v.Reason))
	}
}
