package registry

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Span is a length of an endpoint's schedule: a duration ("10m") or a number
// of slots ("3 slots"). Slots have the same meaning on an endpoint whose slots
// run only on request. At most one of the two is set.
type Span struct {
	Time  time.Duration
	Slots uint64
}

// The largest spans.
const (
	maxSpanTime  = 10 * 366 * 24 * time.Hour
	maxSpanSlots = 1 << 32
)

// IsZero reports whether neither is set.
func (s Span) IsZero() bool { return s == Span{} }

func (s Span) String() string {
	switch s.Slots {
	case 0:
		return s.Time.String()
	case 1:
		return "1 slot"
	}
	return strconv.FormatUint(s.Slots, 10) + " slots"
}

// MarshalText writes what UnmarshalText reads.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads "10m" or "3 slots".
func (s *Span) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	if n, ok := strings.CutSuffix(strings.TrimSuffix(text, "s"), "slot"); ok {
		count, err := strconv.ParseUint(strings.TrimSpace(n), 10, 64)
		if err != nil || count == 0 || count > maxSpanSlots {
			return fmt.Errorf("%q is not a number of slots such as \"3 slots\"", b)
		}
		*s = Span{Slots: count}
		return nil
	}
	d, err := ParseDuration(text)
	if err != nil || d < 0 || d > maxSpanTime {
		return fmt.Errorf("%q is neither a duration such as 90s, 10m or 24h nor a number of slots such as \"3 slots\"", b)
	}
	*s = Span{Time: d}
	return nil
}

// UnmarshalJSON accepts strings only; a bare number would hide its unit.
func (s *Span) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("%s is not a span such as \"10m\" or \"3 slots\"", b)
	}
	return s.UnmarshalText([]byte(text))
}
