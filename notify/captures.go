package notify

import "github.com/freshet/freshet/registry"

// A captureResult is the position of a result in a capture.
type captureResult struct {
	Query string `json:"query"`
	registry.Position
	At   any    `json:"captured_at"`
	Slot uint64 `json:"slot"`
	Why  string `json:"tier"`
}

func captured(e *registry.RoundEnd) []field {
	results := make([]captureResult, len(e.Intervals))
	for i := range e.Intervals {
		x := &e.Intervals[i]
		results[i].Query = x.Query
		if d := x.Done; d != nil {
			results[i] = captureResult{x.Query, d.Position, TimeOrNil(d.At), d.Slot, d.Why}
		}
	}
	return []field{{"profile", e.Profile}, {"epoch", e.Position.Epoch}, {"seq", e.Position.Seq}, {"prev", e.Position.Seq - 1},
		{"round", e.Number}, {"time", e.EndedAt}, {"slot", e.EndedSlot}, {"opened_at", e.OpenedAt}, {"trigger", causeOrNil(e.Trigger)},
		{"results", results}, {"expired_count", e.Expired}}
}

func causeOrNil(c registry.Cause) any {
	if c.Query == "" {
		return nil
	}
	return c
}

// expired returns the members of a message about an expired round, which moves no
// position.
func expired(e *registry.RoundEnd) []field {
	type missed struct {
		Query  string `json:"query"`
		Reason string `json:"reason"`
	}
	var lost []missed
	for i := range e.Intervals {
		if x := &e.Intervals[i]; x.Reason != "" {
			lost = append(lost, missed{x.Query, x.Reason})
		}
	}
	return []field{{"profile", e.Profile}, {"state", string(registry.RoundExpired)}, {"round", e.Number}, {"time", e.EndedAt},
		{"slot", e.EndedSlot},
		{"opened_at", e.OpenedAt}, {"trigger", causeOrNil(e.Trigger)}, {"error", e.Reason}, {"missed", lost}, {"expired_count", e.Expired}}
}
