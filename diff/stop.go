package diff

// A stopper calls a function once per fixed amount of work to learn whether to
// continue, so that the cost of the calls is negligible.
type stopper struct {
	ask  func() error // nil: always continue
	done int          // bytes of work since the last check
}

// bytesPerCheck is how many bytes are written or hashed between two checks: at
// most about a millisecond.
const bytesPerCheck = 256 << 10

// check calls ask now.
func (p *stopper) check() error {
	p.done = 0
	if p.ask == nil {
		return nil
	}
	return p.ask()
}

// spend counts work in bytes. It calls ask if enough was done since the last check.
func (p *stopper) spend(bytes int) error {
	if p.done += bytes; p.done < bytesPerCheck || p.ask == nil {
		return nil
	}
	p.done = 0
	return p.ask()
}
