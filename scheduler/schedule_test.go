package scheduler

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestParseSlot(t *testing.T) {
	for _, c := range []struct{ spec, after, want string }{
		{"@every 10s", "2026-11-20T09:00:03Z", "2026-11-20T09:00:10Z"},
		{"@every 10s", "2026-11-20T09:00:10Z", "2026-11-20T09:00:20Z"}, // after means after
		{"@every 10s", "2026-11-20T09:00:09.999999999Z", "2026-11-20T09:00:10Z"},
		{"@every 1h30m", "2026-11-20T09:00:03Z", "2026-11-20T10:30:00Z"}, // 1795163403 s = 332437 × 5400 s + 3603 s
		{"@every 1.5s", "1970-01-01T00:00:01Z", "1970-01-01T00:00:01.5Z"},
		{"@every 7s", "1970-01-01T00:00:00Z", "1970-01-01T00:00:07Z"},
		{"@every 7s", "1969-12-31T23:59:50Z", "1969-12-31T23:59:53Z"}, // −10 s → −7 s
		{"CRON_TZ=Asia/Kolkata @every 10s", "2026-11-20T09:00:03Z", "2026-11-20T09:00:10Z"},
		{"*/5 * * * *", "2026-11-20T10:02:00+01:00", "2026-11-20T09:05:00Z"},
		{"0 2 * * *", "2026-11-20T02:30:00+01:00", "2026-11-20T02:00:00Z"}, // 01:30 in UTC
		{"CRON_TZ=Europe/Berlin 0 2 * * *", "2026-11-20T00:30:00Z", "2026-11-20T01:00:00Z"},
		{"30 */5 * * * *", "2026-11-20T09:00:00Z", "2026-11-20T09:00:30Z"}, // seconds first
		{"@hourly", "2026-11-20T09:00:00Z", "2026-11-20T10:00:00Z"},
		{" @daily ", "2026-11-20T09:00:00Z", "2026-11-21T00:00:00Z"},
	} {
		s, err := ParseSlot(c.spec)
		if err != nil {
			t.Errorf("%q: %v", c.spec, err)
			continue
		}
		if got := s.Next(at(c.after)); !got.Equal(at(c.want)) || got.Location() != time.UTC {
			t.Errorf("%q after %s is %s, want %s", c.spec, c.after, got, c.want)
		}
	}
	if s, err := ParseSlot("never"); err != nil || !s.Next(at("2026-11-20T09:00:00Z")).IsZero() {
		t.Errorf("never: %v", err)
	}
	for _, bad := range []string{
		"", "@every", "@every 0s", "@every 999ms", "@every -5s", "@every soon", "@sometimes", "* * * *", "* * * * * * *",
		"61 * * * *", "0 0 30 2 *", "CRON_TZ=Mars/Olympus 0 2 * * *", "CRON_TZ=UTC", "TZ=", "every 10s", "\x00", "CRON_TZ= 0 2 * *",
	} {
		if _, err := ParseSlot(bad); !errors.Is(err, ErrSlot) {
			t.Errorf("%q: the error is %v", bad, err)
		}
	}
}

func FuzzParseSlot(f *testing.F) {
	for _, s := range []string{"@every 10s", "*/5 * * * *", "CRON_TZ=Europe/Berlin 0 2 * * *", "TZ=x", "never", "@every 9223372036s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := ParseSlot(spec)
		if err != nil {
			return
		}
		now := at("2026-11-20T09:00:00Z")
		if next := s.Next(now); !next.IsZero() && !next.After(now) {
			t.Errorf("%q after %s is %s", spec, now, next)
		}
		if p := period(s); p < 0 || p > 0 && p < time.Second {
			t.Errorf("%q has the period %s", spec, p)
		}
	})
}

func TestBlackouts(t *testing.T) {
	b, err := parseBlackouts([]registry.Blackout{
		{Start: "0 2 * * *", For: registry.Duration(time.Hour)},
		{Start: "30 2 * * *", For: registry.Duration(time.Hour)},
		{Start: "CRON_TZ=Europe/Berlin 0 12 * * *", For: registry.Duration(10 * time.Minute)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ now, end string }{
		{"2026-11-20T01:59:59Z", ""},
		{"2026-11-20T02:00:00Z", "2026-11-20T03:00:00Z"}, // the first moment is inside
		{"2026-11-20T02:45:00Z", "2026-11-20T03:30:00Z"}, // the longer of two
		{"2026-11-20T03:30:00Z", ""},                     // the last one outside
		{"2026-11-20T11:05:00Z", "2026-11-20T11:10:00Z"},
	} {
		got := b.end(at(c.now))
		if c.end == "" && !got.IsZero() || c.end != "" && !got.Equal(at(c.end)) {
			t.Errorf("at %s the blackout ends at %s, want %q", c.now, got, c.end)
		}
	}
	s, _ := ParseSlot("@every 1s")
	if got := b.next(s, at("2026-11-20T01:59:59Z")); !got.Equal(at("2026-11-20T03:30:00Z")) {
		t.Errorf("the first slot after both is at %s", got)
	}
}

// At the end of summer time an hour repeats, and so does a blackout that starts in it.
// The blackout still ends and is no longer than on other days.
func TestBlackoutsAcrossSummerTime(t *testing.T) {
	for _, c := range []struct {
		start string
		long  time.Duration
		ends  map[string]string
	}{
		{"CRON_TZ=Europe/Berlin 0 2 * * *", time.Hour, map[string]string{
			"2026-10-24T23:59:59Z": "", "2026-10-25T00:00:00Z": "2026-10-25T01:00:00Z",
			"2026-10-25T01:59:59Z": "2026-10-25T02:00:00Z", "2026-10-25T02:00:00Z": "", "2026-11-20T01:00:00Z": "2026-11-20T02:00:00Z"}},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", 2 * time.Hour, map[string]string{
			"2026-10-25T00:29:59Z": "", "2026-10-25T00:30:00Z": "2026-10-25T02:30:00Z",
			"2026-10-25T01:30:00Z": "2026-10-25T03:30:00Z", "2026-10-25T03:30:00Z": ""}},
		{"*/5 9-17 * * *", 10 * time.Minute, map[string]string{
			"2026-11-20T08:59:59Z": "", "2026-11-20T17:57:00Z": "2026-11-20T18:05:00Z", "2026-11-20T18:05:00Z": ""}},
	} {
		b, err := parseBlackouts([]registry.Blackout{{Start: c.start, For: registry.Duration(c.long)}})
		if err != nil {
			t.Error(err)
			continue
		}
		for now, want := range c.ends {
			if got := b.end(at(now)); want == "" && !got.IsZero() || want != "" && !got.Equal(at(want)) {
				t.Errorf("%s: at %s it ends at %s, want %q", c.start, now, got, want)
			}
		}
	}
}

// A time that summer time skips comes at the first moment after the gap, once, also for blackouts.
func TestTimesSkippedBySummerTime(t *testing.T) {
	for _, c := range []struct{ spec, after, next string }{
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-29T00:59:59.5Z", "2026-03-29T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-27T12:00:00Z", "2026-03-28T01:30:00Z"},
		{"CRON_TZ=Europe/Berlin 0 2 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 0 3 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 0 2,3 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"},
		{"CRON_TZ=Europe/Berlin 59 59 2 29 3 *", "2026-01-01T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 * * 1", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
		{"TZ=America/New_York 15 2 8 3 *", "2026-01-01T00:00:00Z", "2026-03-08T07:00:00Z"},
		{"CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T00:00:00Z", "2026-10-03T15:30:00Z"}, // by half an hour
		{"CRON_TZ=America/Santiago 30 0 * * *", "2026-09-06T00:00:00Z", "2026-09-06T04:00:00Z"},    // at midnight
		{"CRON_TZ=Europe/Berlin */20 * * * *", "2026-03-29T00:40:00Z", "2026-03-29T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 30 * * * *", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"},
		{"CRON_TZ=Europe/Berlin 0 */2 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T02:30:00Z"},
	} {
		s, err := ParseSlot(c.spec)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := s.Next(at(c.after)); !got.Equal(at(c.next)) {
			t.Errorf("%s after %s: %s, want %s", c.spec, c.after, got, c.next)
		}
	}
	if s, _ := ParseSlot("CRON_TZ=Europe/Berlin 0 */2 * * *"); period(s) != 2*time.Hour {
		t.Errorf("the period is %s", period(s))
	}
	b, err := parseBlackouts([]registry.Blackout{{Start: "CRON_TZ=Europe/Berlin 30 2 * * *", For: registry.Duration(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.end(at("2026-03-29T01:30:00Z")); !got.Equal(at("2026-03-29T02:00:00Z")) {
		t.Errorf("the blackout of the day with a gap ends at %s", got)
	}
}

// CRON_TZ=Local would mean another time on each machine.
func TestLocalZoneIsRefused(t *testing.T) {
	for _, spec := range []string{"CRON_TZ=Local 0 2 * * *", "TZ=Local 0 2 * * *", "CRON_TZ=Local @every 10s"} {
		if _, err := ParseSlot(spec); !errors.Is(err, ErrSlot) || !strings.Contains(err.Error(), "Europe/Berlin") {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

func TestValidate(t *testing.T) {
	ok := registry.Endpoint{Name: "city", URL: "http://127.0.0.1/sparql"}
	if err := Validate(ok); err != nil {
		t.Errorf("name and url alone must do: %v", err)
	}
	for _, c := range []struct {
		edit func(*registry.Endpoint)
		says string // "" = accepted
	}{
		{func(e *registry.Endpoint) { e.Slot = "hourly" }, "slot"},
		{func(e *registry.Endpoint) { e.Policy = "lru" }, "policy"},
		{func(e *registry.Endpoint) { e.FallbackPolicy = "lru" }, "fallback_policy"},
		{func(e *registry.Endpoint) { e.Rule = "lax" }, "strict or debt"},
		{func(e *registry.Endpoint) { e.Rule = "overrun" }, "simulator alone"},
		{func(e *registry.Endpoint) { e.Rule = "debt" }, ""},
		{func(e *registry.Endpoint) { e.Budget = -1 }, "budget"},
		{func(e *registry.Endpoint) { e.Timeout = -1 }, "timeout"},
		{func(e *registry.Endpoint) { e.MinGap = -1 }, "min_gap"},
		{func(e *registry.Endpoint) { e.Concurrency = -2 }, "concurrency"},
		{func(e *registry.Endpoint) { e.Slot, e.Budget = "@every 10s", registry.Duration(11*time.Second) }, "10s"},
		{func(e *registry.Endpoint) { e.Slot, e.Budget = "@every 10s", registry.Duration(10*time.Second) }, ""},
		{func(e *registry.Endpoint) {
			e.Slot, e.Budget, e.Concurrency = "@every 10s", registry.Duration(20*time.Second), 2
		}, ""},
		{func(e *registry.Endpoint) { e.Slot, e.Concurrency = "@every 2000000h", 1<<40 }, ""}, // no overflow
		// The shortest gap counts: from 00:00 to 00:05, although the next one is a day
		// later.
		{func(e *registry.Endpoint) { e.Slot, e.Budget = "0,5 0 * * *", registry.Duration(6*time.Minute) }, "5m"},
		{func(e *registry.Endpoint) { e.Slot, e.Budget = "never", registry.Duration(24*time.Hour) }, ""},
		{func(e *registry.Endpoint) { e.Blackout = []registry.Blackout{{Start: "0 2 * * *"}} }, "blackout 1"},
		{func(e *registry.Endpoint) {
			e.Blackout = []registry.Blackout{{Start: "never", For: registry.Duration(time.Hour)}}
		}, "blackout 1"},
		{func(e *registry.Endpoint) {
			e.Blackout = []registry.Blackout{{Start: "x", For: registry.Duration(time.Hour)}}
		}, "blackout 1"},
		{func(e *registry.Endpoint) {
			e.Blackout = []registry.Blackout{{Start: "@daily", For: registry.Duration(24 * time.Hour)}}
		}, "never ends"},
	} {
		e := ok
		c.edit(&e)
		err := Validate(e)
		if c.says == "" && err != nil {
			t.Errorf("%+v: %v", e, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "city")) {
			t.Errorf("want an error about %q of city, got %v", c.says, err)
		}
	}
}
