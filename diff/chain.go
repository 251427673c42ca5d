package diff

// A Chain composes many steps into one, equally many at a time: each row is looked
// at as often as the logarithm of their number says, where composing one step after
// the other would look at all that came before for each. Add steps in their order.
// The zero value holds none.
type Chain struct{ links []link }

type link struct {
	delta *Delta
	steps int
}

// Add takes the next step and returns the composition of some of the last ones,
// d among them, which bounds what the chain holds. The error is Compose's.
func (c *Chain) Add(d *Delta) (last *Delta, err error) {
	c.links = append(c.links, link{d, 1})
	for n := len(c.links); n > 1 && c.links[n-2].steps == c.links[n-1].steps; n = len(c.links) {
		if err := c.join(); err != nil {
			return nil, err
		}
	}
	return c.links[len(c.links)-1].delta, nil
}

// join makes one of the last two.
func (c *Chain) join() error {
	n := len(c.links)
	a, b := c.links[n-2], c.links[n-1]
	d, err := Compose(a.delta, b.delta)
	c.links = append(c.links[:n-2], link{d, a.steps + b.steps})
	return err
}

// Sum is the composition of all steps, nil when they cancel out or there are none.
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
