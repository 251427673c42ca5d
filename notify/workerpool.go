package notify

import "sync"

// A workerPool runs the tasks that wait, in the order in which they came, with as
// many goroutines as there are processors and with none while nothing waits. A task
// that is about to wait for a client hands off first: the goroutine is then that
// client's own, and another one goes on with the queue. So ten thousand idle
// clients cost no goroutine here, and a slow one delays no other.
type workerPool struct {
	mu     sync.Mutex
	queue  []task // from first on
	first  int
	limit  int // goroutines at a time
	active int // that have not handed off
	closed bool
	wg     sync.WaitGroup
}

// A task is a piece of work. It returns true when it handed its goroutine off.
type task interface{ work() (handedOff bool) }

// push queues tasks. After close it does nothing.
func (p *workerPool) push(tasks ...task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.queue = append(p.queue, tasks...)
	p.start(len(tasks))
}

// start starts goroutines for additional tasks, up to the limit.
func (p *workerPool) start(tasks int) {
	for ; p.active < p.limit && tasks > 0; tasks-- {
		p.active++
		p.wg.Add(1)
		go p.run()
	}
}

func (p *workerPool) run() {
	defer p.wg.Done()
	for {
		t := p.next()
		if t == nil || t.work() {
			return
		}
	}
}

// next returns a task, or nil when this goroutine is to end.
func (p *workerPool) next() task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == len(p.queue) {
		p.active--
		p.queue, p.first = p.queue[:0], 0
		if cap(p.queue) > 1024 {
			p.queue = nil
		}
		return nil
	}
	t := p.queue[p.first]
	p.queue[p.first] = nil
	if p.first++; p.first >= 1024 && p.first*2 >= len(p.queue) {
		n := copy(p.queue, p.queue[p.first:])
		clear(p.queue[n:])
		p.queue, p.first = p.queue[:n], 0
	}
	return t
}

// handOff removes the calling goroutine from those that work on the queue.
func (p *workerPool) handOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	if p.first < len(p.queue) {
		p.start(1)
	}
}

// close refuses further tasks and waits until the queued ones are done.
func (p *workerPool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wg.Wait()
}
