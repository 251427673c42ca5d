package registry

import (
	"encoding/json"
	"testing"
	"time"
)

// Days are 24 hours.
func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "5m": 5 * time.Minute, "0d": 0} {
		if d, err := ParseDuration(text); err != nil || d != want {
			t.Errorf("%q is %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "d", "xd", "-1d", "1.5d", "99999999d", "1dx", "1d2d"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %s", text, d)
		}
	}
	if e := (Endpoint{Slot: "5m"}).WithDefaults(); e.Slot != "@every 5m" {
		t.Errorf("the slot 5m is %q", e.Slot)
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{`"90s"`: 90 * time.Second, `"24h"`: 24 * time.Hour, `"0s"`: 0} {
		var d Duration
		if err := json.Unmarshal([]byte(in), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s: %v, %v", in, d, err)
		}
	}
	for _, in := range []string{`90`, `"90"`, `"-1s"`, `"soon"`, `null1`, `{}`} {
		var d Duration
		if err := json.Unmarshal([]byte(in), &d); err == nil {
			t.Errorf("%s is accepted as %v", in, d)
		}
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]Size{`"64MiB"`: 64 << 20, `"1GiB"`: 1 << 30, `"10 KiB"`: 10 << 10, `512`: 512, `"512"`: 512,
		`"7B"`: 7, `"0"`: 0} {
		var s Size
		if err := json.Unmarshal([]byte(in), &s); err != nil || s != want {
			t.Errorf("%s: %d, %v", in, s, err)
		}
		var again Size
		if err := again.UnmarshalText([]byte(want.String())); err != nil || again != want {
			t.Errorf("%d is written as %s and read as %d (%v)", want, want, again, err)
		}
	}
	for _, in := range []string{`"-1"`, `"64MB"`, `"9999999999GiB"`, `"lots"`, `1.5`} {
		var s Size
		if err := json.Unmarshal([]byte(in), &s); err == nil {
			t.Errorf("%s is accepted as %d", in, s)
		}
	}
}

func TestPosition(t *testing.T) {
	p := Position{"Zq81", 42}
	if got, err := ParsePosition(p.String()); err != nil || got != p {
		t.Errorf("%v: %v, %v", p, got, err)
	}
	for _, in := range []string{"", "Zq81", ":1", "Zq81:", "Zq81:-1", "Zq81:x", "Zq81:9007199254740992"} {
		if got, err := ParsePosition(in); err == nil {
			t.Errorf("%q is accepted as %v", in, got)
		}
	}
}
