package diff

// A pulse asks whether to go on once for each piece of work of a certain size,
// so that asking costs nothing beside the work.
type pulse struct {
	ask  func() error // nil: always go on
	done int          // bytes of work since it was last asked
}

// pulseBytes is how many bytes are written or hashed between two questions: a
// millisecond at most.
const pulseBytes = 256 << 10

// now asks at once.
func (p *pulse) now() error {
	p.done = 0
	if p.ask == nil {
		return nil
	}
	return p.ask()
}

// spend counts work in bytes.
func (p *pulse) spend(bytes int) error {
	if p.done += bytes; p.done < pulseBytes || p.ask == nil {
		return nil
	}
	p.done = 0
	return p.ask()
}
