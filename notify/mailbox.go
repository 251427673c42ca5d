package notify

import "sync"

// A mailbox collects the subscriptions that were woken or are to end, until their
// session looks at them. Its methods may be called concurrently.
type mailbox[T interface{ setAwake(bool) (was bool) }] struct {
	mu      sync.Mutex
	woken   []T // each once
	dropped []T
}

// wake records that a subscription may have something to send. It reports whether it is
// the first one since the session looked.
func (m *mailbox[T]) wake(sub T) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !sub.setAwake(true) {
		m.woken = append(m.woken, sub)
		return len(m.woken) == 1
	}
	return false
}

// drop records that a subscription is to end.
func (m *mailbox[T]) drop(sub T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped = append(m.dropped, sub)
}

// drain calls look for each subscription that was woken, and returns those that are
// to end.
func (m *mailbox[T]) drain(look func(T)) (dropped []T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sub := range m.woken {
		sub.setAwake(false)
		look(sub)
	}
	clear(m.woken)
	m.woken = m.woken[:0]
	dropped, m.dropped = m.dropped, nil
	return dropped
}
