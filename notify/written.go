package notify

import "github.com/freshet/freshet/registry"

// written keeps changes as they were last put on the wire, so that a thousand
// followers of a query marshal each of its changes once.
type written struct{ kept[[]byte] }

// members are those of a change's JSON object, without the braces. They are
// shared: nobody may write to them.
func (w *written) members(c *registry.Change, f Format) []byte {
	b, _ := w.get(step{c.Query, c.Epoch, c.Prev, c.Seq}, func() ([]byte, error) {
		return appendChange(nil, c, f, false), nil
	}, func(b []byte) int { return cap(b) })
	return b
}
