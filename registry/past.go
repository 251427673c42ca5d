package registry

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Moment names a state of a query's result: the one after the change at Position, or
// the one at Time if that is set. An empty epoch means the current one.
type Moment struct {
	Position
	Time time.Time
}

// momentLayouts are the forms of a time without a zone, which is in UTC.
var momentLayouts = []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04:05.999999999",
	"2006-01-02 15:04", "2006-01-02"}

// ParseMoment parses a change's number, a position of the form epoch:seq, or a time as
// ParseTime does.
func ParseMoment(s string) (Moment, error) {
	if n, err := strconv.ParseUint(s, 10, 53); err == nil {
		return Moment{Position: Position{Seq: n}}, nil
	}
	if t, err := ParseTime(s); err == nil {
		return Moment{Time: t}, nil
	}
	p, err := ParsePosition(s)
	if err != nil {
		return Moment{}, fmt.Errorf("%q is neither the number of a change, nor a position (epoch:number), nor a time such as "+
			"2026-11-01T12:00:00Z", s)
	}
	return Moment{Position: p}, nil
}

// ParseTime parses an RFC 3339 time, or a date or a time without a zone, which is in UTC.
func ParseTime(s string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t.UTC(), nil
	}
	for _, layout := range momentLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	hint := ""
	if strings.Contains(s, " ") {
		hint = "; in a URL, write the plus of a zone as %2B"
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2026-11-01T12:00:00Z, 2026-11-01T12:00 or 2026-11-01 (UTC)%s", s, hint)
}

// A Version is a state of a query's result: the result after one change.
type Version struct {
	Position
	Time      time.Time // of the commit
	CheckedAt time.Time // when the endpoint's answer was true
}

// A Place is a version with its neighbours among those that can be read. Prev and Next
// have seq 0 if there is none.
type Place struct {
	Version
	First, Prev, Next, Last Version
}
