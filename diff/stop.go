package diff

// A stopper asks whether to go on once for each piece of work of a certain size,
// so that asking costs nothing beside the work.
type stopper struct {
	ask  func() error // nil: always go on
	done int          // bytes of work since it was last asked
}

// bytesPerCheck is how many bytes are written or hashed between two questions: a
// millisecond at most.
const bytesPerCheck = 256 << 10

// check asks at once.
func (p *stopper) check() error {
	p.done = 0
	if p.ask == nil {
		return nil
	}
	return p.ask()
}

// spend counts work in bytes.
func (p *stopper) spend(bytes int) error {
	if p.done += bytes; p.done < bytesPerCheck || p.ask == nil {
		return nil
	}
	p.done = 0
	return p.ask()
}
