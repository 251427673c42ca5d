package diff

// A Chain composes many deltas in O(n log n): it composes equally long parts,
// where composing one after the other would examine all earlier rows for each.
// Add the deltas in order. The zero value is empty.
type Chain struct{ links []link }

type link struct {
	delta *Delta
	steps int
}

// Add appends a delta and returns the composition of some of the last ones
// including d, whose size bounds the chain's memory. The error is Compose's.
func (c *Chain) Add(d *Delta) (last *Delta, err error) {
	c.links = append(c.links, link{d, 1})
	for n := len(c.links); n > 1 && c.links[n-2].steps == c.links[n-1].steps; n = len(c.links) {
		if err := c.join(); err != nil {
			return nil, err
		}
	}
	return c.links[len(c.links)-1].delta, nil
}

// join composes the last two links.
func (c *Chain) join() error {
	n := len(c.links)
	a, b := c.links[n-2], c.links[n-1]
	d, err := Compose(a.delta, b.delta)
	c.links = append(c.links[:n-2], link{d, a.steps + b.steps})
	return err
}

// Sum returns the composition of all deltas; nil if they cancel out or there
// are none.
func (c *Chain) Sum() (*Delta, error) {
	for len(c.links) > 1 {
		if err := c.join(); err != nil {
			return nil, err
		}
	}
	if len(c.links) == 0 {
		return nil, nil
	}
	return c.links[0].delta, nil
}
