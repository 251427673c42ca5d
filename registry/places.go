package registry

import (
	"context"
	"fmt"
	"sync"
)

// Places bound how much of an expensive kind of work runs at a time. One caller has at most half of them, or the only one, so
// that no caller keeps all others out. Anonymous has all: where it may do such work, everybody is Anonymous.
type Places struct {
	most int

	mu    sync.Mutex
	taken int
	held  map[string]int // by caller
	freed chan struct{}  // closed when a place becomes free
}

// NewPlaces returns so many places.
func NewPlaces(most int) *Places {
	return &Places{most: most, held: map[string]int{}, freed: make(chan struct{})}
}

// Take takes a place for a caller. ok is false if there is none.
func (p *Places) Take(caller string) (leave func(), ok bool) {
	leave, err := p.Enter(caller)
	return leave, err == nil
}

// Enter is like Take, and its error says who has the places.
func (p *Places) Enter(caller string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := max(1, p.most/2)
	switch {
	case caller != Anonymous && p.held[caller] >= own:
		return nil, fmt.Errorf("one caller may run %d of this kind at a time, and this one does", own)
	case p.taken >= p.most:
		return nil, fmt.Errorf("the server runs %d of this kind at a time, and others are running", p.most)
	}
	p.taken++
	p.held[caller]++
	return func() { p.leave(caller) }, nil
}

func (p *Places) leave(caller string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.held[caller]--; p.held[caller] == 0 {
		delete(p.held, caller)
	}
	close(p.freed)
	p.freed = make(chan struct{})
}

// Wait is like Take, but waits for a place until the context ends.
func (p *Places) Wait(ctx context.Context, caller string) (leave func(), err error) {
	for {
		p.mu.Lock()
		freed := p.freed
		p.mu.Unlock()
		if leave, ok := p.Take(caller); ok {
			return leave, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
