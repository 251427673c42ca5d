package service_test

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

func TestQuiet(t *testing.T) {
	at := func(text string) time.Time {
		x, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, x := range []struct {
		q                registry.Quiet
		since, now, want string
	}{
		{registry.Quiet{}, "2026-03-28 12:10", "2026-03-28 12:20", "2026-03-28 12:20"},
		{registry.Quiet{Digest: "1h"}, "2026-03-28 12:10", "2026-03-28 12:20", "2026-03-28 13:00"},
		{registry.Quiet{Digest: "1h"}, "2026-03-28 12:10", "2026-03-28 13:20", "2026-03-28 13:20"},
		{registry.Quiet{Digest: "08:00"}, "2026-03-28 07:10", "2026-03-28 07:20", "2026-03-28 08:00"},
		{registry.Quiet{Digest: "08:00"}, "2026-03-28 08:00", "2026-03-28 08:00", "2026-03-29 08:00"},
		{registry.Quiet{Digest: "08:00", Zone: "Europe/Berlin"}, "2026-03-28 06:50", "2026-03-28 06:50", "2026-03-28 07:00"},
		{registry.Quiet{Digest: "08:00", Zone: "Europe/Berlin"}, "2026-03-28 09:00", "2026-03-28 09:00", "2026-03-29 06:00"}, // summer time
		{registry.Quiet{Hours: "22:00-07:00"}, "2026-03-28 23:00", "2026-03-28 23:00", "2026-03-29 07:00"},
		{registry.Quiet{Hours: "22:00-07:00"}, "2026-03-28 05:00", "2026-03-28 05:00", "2026-03-28 07:00"},
		{registry.Quiet{Hours: "22:00-07:00"}, "2026-03-28 07:00", "2026-03-28 07:00", "2026-03-28 07:00"},
		{registry.Quiet{Hours: "12:00-13:00"}, "2026-03-28 12:30", "2026-03-28 12:30", "2026-03-28 13:00"},
		{registry.Quiet{Hours: "06:00-09:00", Digest: "08:00"}, "2026-03-28 05:00", "2026-03-28 05:00", "2026-03-28 09:00"},
		{registry.Quiet{Digest: "1h"}, "2027-03-28 12:10", "2026-03-28 12:20", "2026-03-28 12:20"}, // the clock was set back
		// An hour is missing at 07:00, and one is there twice from 01:00.
		{registry.Quiet{Hours: "22:00-02:30", Zone: "America/New_York"}, "2026-03-08 06:45", "2026-03-08 06:45", "2026-03-08 07:00"},
		{registry.Quiet{Hours: "22:00-02:30", Zone: "Europe/Berlin"}, "2026-10-25 01:15", "2026-10-25 01:15", "2026-10-25 01:30"},
		{registry.Quiet{Hours: "22:00-02:30", Zone: "Europe/Berlin"}, "2026-10-25 00:15", "2026-10-25 00:15", "2026-10-25 00:30"},
	} {
		q, err := service.ReadQuiet(x.q)
		if err != nil {
			t.Errorf("%+v: %v", x.q, err)
			continue
		}
		if got := q.Next(at(x.since), at(x.now), nil); !got.Equal(at(x.want)) {
			t.Errorf("%+v since %s, now %s: %v, want %s", x.q, x.since, x.now, got.UTC(), x.want)
		}
	}
	q, err := service.ReadQuiet(registry.Quiet{Most: "2"})
	if err != nil {
		t.Fatal(err)
	}
	var recent []time.Time
	for _, x := range []string{"2026-03-28 11:00", "2026-03-28 12:00", "2026-03-28 12:30"} {
		recent = q.Sent(recent, at(x))
	}
	if got := q.Next(at("2026-03-28 12:31"), at("2026-03-28 12:31"), recent); len(recent) != 2 || !got.Equal(at("2026-03-28 13:00")) {
		t.Errorf("%v after %v", got, recent)
	}
}

// Settings that are stored as they were written have few bytes, whatever the rest of them reads as.
func TestQuietIsShort(t *testing.T) {
	long := strings.Repeat("0", 100)
	for field, q := range map[string]registry.Quiet{
		"digest": {Digest: long + "1h"}, "zone": {Zone: "Europe" + strings.Repeat("/", 100) + "Berlin"},
		"quiet": {Hours: "22:00-07:00" + strings.Repeat(" ", 100)}, "most": {Most: long + "1"}, "repeat": {Repeat: long + "1h"},
	} {
		if _, err := service.ReadQuiet(q); err == nil || !strings.HasPrefix(err.Error(), field+" has at most ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
