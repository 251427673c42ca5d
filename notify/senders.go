package notify

import "sync"

// Senders do the work that waits, in the order in which it came, with as many
// goroutines as there are processors and with none while nothing waits. Whoever
// is about to wait for a client detaches first: the goroutine is then that
// client's own, and another one goes on with the queue. So ten thousand idle
// clients cost no goroutine here, and a slow one delays nobody.
type senders struct {
	mu     sync.Mutex
	queue  []job // from first on
	first  int
	most   int // goroutines at a time
	active int // those that are not detached
	closed bool
	wg     sync.WaitGroup
}

// A job is a piece of work. It returns true when it detached its goroutine.
type job interface{ work() (detached bool) }

// push has a job done. After close it does nothing.
func (s *senders) push(jobs ...job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.queue = append(s.queue, jobs...)
	s.start(len(jobs))
}

// start sees to it that so many more jobs find somebody who does them.
func (s *senders) start(jobs int) {
	for ; s.active < s.most && jobs > 0; jobs-- {
		s.active++
		s.wg.Add(1)
		go s.run()
	}
}

func (s *senders) run() {
	defer s.wg.Done()
	for {
		j := s.next()
		if j == nil || j.work() {
			return
		}
	}
}

// next takes a job, or nil when this goroutine is to end.
func (s *senders) next() job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == len(s.queue) {
		s.active--
		s.queue, s.first = s.queue[:0], 0
		if cap(s.queue) > 1024 {
			s.queue = nil
		}
		return nil
	}
	j := s.queue[s.first]
	s.queue[s.first] = nil
	if s.first++; s.first >= 1024 && s.first*2 >= len(s.queue) {
		n := copy(s.queue, s.queue[s.first:])
		clear(s.queue[n:])
		s.queue, s.first = s.queue[:n], 0
	}
	return j
}

// detach takes the calling goroutine out of those that work on the queue.
func (s *senders) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	if s.first < len(s.queue) {
		s.start(1)
	}
}

// close waits until what has been pushed is done; nothing is taken any more.
func (s *senders) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}
