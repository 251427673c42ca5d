package diff

// A stopper asks whether to continue, once for each piece of work of a certain
// size, so that the cost of asking is negligible.
type stopper struct {
	ask  func() error // nil: always continue
	done int          // bytes of work since the last check
}

// bytesPerCheck is how many bytes are written or hashed between two checks: at
// most about a millisecond.
const bytesPerCheck = 256 << 10

// check asks at once.
func (p *stopper) check() error {
	p.done = 0
	if p.ask == nil {
		return nil
	}
	return p.ask()
}

// spend records work in bytes, and asks if there was enough since the last
// check.
func (p *stopper) spend(bytes int) error {
	if p.done += bytes; p.done < bytesPerCheck || p.ask == nil {
		return nil
	}
	p.done = 0
	return p.ask()
}
