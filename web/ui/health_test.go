package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// The plot distinguishes slots with answers, slots without requests, and blackouts.
func TestHealth(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	about := func(h health) string { return rendered(t, "endpoint", "health-about", h) }
	var slots []scheduler.Slot // newest first
	for i := range 24 {
		slots = append(slots, scheduler.Slot{Started: now.Add(-time.Duration(i) * time.Hour), Run: 1, Complete: 1})
	}
	if h := healthOf(slots, nil, now); len(h.Bars) != 12 || len(h.Dark) != 0 || about(h) != "All 24 slots were answered." {
		t.Errorf("slots at their usual distance are drawn as %d bars: %s", len(h.Bars), about(h))
	}
	slots[0] = scheduler.Slot{Started: slots[0].Started, Error: "refused"}
	slots[1] = scheduler.Slot{Started: slots[1].Started, Run: 1, Failed: 1}
	slots[2] = scheduler.Slot{Started: slots[2].Started}
	slots[3].Run, slots[3].Failed = 2, 1
	slots[4] = scheduler.Slot{Started: slots[4].Started, Run: 1, Cut: 1}
	slots[5].Run, slots[5].Cut = 2, 1
	slots[6] = scheduler.Slot{Started: slots[6].Started, Run: 1, Failed: 1, Error: "429", Throttled: true}
	h := healthOf(slots, nil, now)
	if about(h) != "Of 24 slots: 18 answered, 1 in which nothing was finished within the budget, 1 answered in part, 2 failed, 1 in which it had asked us to wait, 1 with nothing due." {
		t.Error(about(h))
	}
	if last := h.Bars[len(h.Bars)-1]; last.Class != "err" {
		t.Errorf("the newest slot failed and is drawn as %+v", last)
	}
	for i := range slots {
		slots[i] = scheduler.Slot{Started: slots[i].Started}
	}
	if h := healthOf(slots, nil, now); len(h.Bars) != 0 || about(h) != "Nothing was due in 24 slots." {
		t.Errorf("nothing was asked: %d bars, %s", len(h.Bars), about(h))
	}

	hour := registry.Duration(time.Hour)
	h = healthOf(slots, []registry.Blackout{{Start: "0 2 * * *", For: hour}, {Start: "0 11 * * *", For: 3 * hour / 2}}, now)
	if len(h.Dark) != 2 || !strings.HasSuffix(about(h), " In 2 blackout times no slot began.") {
		t.Fatalf("%+v %s", h.Dark, about(h))
	}
	// The plot shows 23 hours, from 13:00 of the previous day.
	if d := h.Dark[0]; d.X != "56.52%" || d.Width != "4.35%" {
		t.Errorf("2 to 3 o'clock is drawn from %s, %s wide", d.X, d.Width)
	}
	if d := h.Dark[1]; d.X != "95.65%" || d.Width != "4.35%" {
		t.Errorf("what is dark since 11 o'clock is drawn from %s, %s wide", d.X, d.Width)
	}
	h = healthOf(slots, []registry.Blackout{{Start: "* * * * *", For: registry.Duration(10 * time.Second)}}, now)
	if len(h.Dark) != 1 || !strings.Contains(about(h), "1,380 blackout times") {
		t.Errorf("one a minute: %d frames, %s", len(h.Dark), about(h))
	}
}
