package notify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

// A Format says how changes are written.
type Format struct {
	// MaxChange is the size in bytes of added and removed rows above which a change is
	// truncated to counts and a link; 0 means never.
	MaxChange int64
	// PublicURL is the prefix of links, without a slash at the end.
	PublicURL string
	// Filtered marks a change as what a filter left of it: it says "filtered":true
	// and carries no hash.
	Filtered bool
	// Summary adds the change in words.
	Summary bool
}

// ResultsURL returns the URL of a query's last complete result.
func (f Format) ResultsURL(query string) string {
	return strings.TrimSuffix(f.PublicURL, "/") + "/v1/queries/" + query + "/results"
}

// TooLarge reports whether a change is sent as counts and a link only.
func (f Format) TooLarge(d *diff.Delta) bool {
	return f.MaxChange > 0 && d != nil && cursor.DeltaSize(d) > f.MaxChange
}

var errNoDelta = errors.New("a change without a delta")

// MarshalChange writes a change as the JSON object that all protocols send: the schema Change of web/docs/openapi.yaml.
func MarshalChange(c registry.Change, f Format) ([]byte, error) {
	if c.Delta == nil {
		return nil, fmt.Errorf("change %s of %s: %w", c.Position(), c.Query, errNoDelta)
	}
	return append(appendChange([]byte("{"), &c, f), '}'), nil
}

// appendChange writes the members of a change, the first without a comma.
func appendChange(b []byte, c *registry.Change, f Format) []byte {
	d := c.Delta
	b = append(b, `"query":`...)
	b = appendJSON(b, c.Query)
	b = appendMember(b, "epoch", c.Epoch)
	b = appendMember(b, "prev", c.Prev)
	b = appendMember(b, "seq", c.Seq)
	b = appendMember(b, "offset", c.Offset)
	b = appendMember(b, "time", c.Time)
	b = appendMember(b, "checked_at", c.CheckedAt)
	b = appendMember(b, "slot", c.Slot)
	b = appendMember(b, "form", string(d.Form))
	if c.Baseline || d.Baseline {
		b = append(b, `,"baseline":true,"jaccard":null`...)
	} else {
		b = appendMember(b, "jaccard", d.Jaccard)
	}
	if f.Filtered {
		b = append(b, `,"filtered":true`...)
	} else {
		b = appendMember(b, "hash", d.NewHash)
		b = appendMember(b, "previous_hash", orNull(d.OldHash))
	}
	if len(c.Edits) > 0 {
		b = appendMember(b, "edits", c.Edits)
	}
	if f.Summary {
		b = appendMember(b, "summary", watch.InWords(d, nil, watch.Plain).Short())
	}
	if d.Form == diff.Ask {
		return appendAsk(b, c)
	}
	if f.TooLarge(d) {
		b = append(b, `,"truncated":true`...)
		b = appendMember(b, "added_count", len(d.Added))
		b = appendMember(b, "removed_count", len(d.Removed))
		return appendMember(b, "results", f.ResultsURL(c.Query))
	}
	b = slices.Grow(b, int(cursor.DeltaSize(d))+256)
	b = diff.AppendRowsJSON(append(b, `,"added":`...), d.Form, d.Vars, d.Added)
	b = diff.AppendRowsJSON(append(b, `,"removed":`...), d.Form, d.OldVars, d.Removed)
	if d.Ordered {
		b = appendMember(b, "added_at", indices(d.AddedAt))
		b = appendMember(b, "removed_at", indices(d.RemovedAt))
	}
	return b
}

func appendAsk(b []byte, c *registry.Change) []byte {
	b = appendMember(b, "boolean", c.Delta.Boolean)
	if c.Baseline || c.Delta.Baseline {
		return append(b, `,"previous":null`...)
	}
	return appendMember(b, "previous", c.Delta.Previous)
}

// indices returns at, or an empty list for nil: an ordered change always has indices.
func indices(at []int) []int {
	if at == nil {
		return []int{}
	}
	return at
}
