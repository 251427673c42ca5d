package notify

import "sync"

// A mailbox holds what others leave for a session. Its methods may be called
// concurrently.
type mailbox struct {
	mu      sync.Mutex
	woken   []*subscription // each once, see subscription.awake
	dropped []*subscription
}

// wake leaves that there is something to look at.
func (m *mailbox) wake(sub *subscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !sub.awake {
		sub.awake = true
		m.woken = append(m.woken, sub)
	}
}

// drop leaves that a subscription is to end.
func (m *mailbox) drop(sub *subscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped = append(m.dropped, sub)
}

// drain hands the subscriptions that were woken to look, and returns those that
// are to end.
func (m *mailbox) drain(look func(*subscription)) (dropped []*subscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, sub := range m.woken {
		m.woken[i], sub.awake = nil, false
		look(sub)
	}
	m.woken = m.woken[:0]
	dropped, m.dropped = m.dropped, nil
	return dropped
}
