package scheduler

// A queue holds candidates that wait for a slot or a time, smallest first. Each
// candidate knows its place, so that it can be moved or taken out.
type queue struct {
	which waiting
	heap  []*candidate
}

type waiting int

const (
	forSlot waiting = iota // wakes at a slot number
	forTime                // wakes at a time, in nanoseconds since the epoch
)

// A wake is when a candidate is looked at again, and its place in the queue
// from 1; 0 = it does not wait.
type wake struct {
	at    int64
	place int
}

func (q *queue) wake(i int) *wake { return &q.heap[i].wakes[q.which] }

func (q *queue) less(i, j int) bool { return q.wake(i).at < q.wake(j).at }

func (q *queue) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.wake(i).place, q.wake(j).place = i+1, j+1
}

// set makes c wait until at.
func (q *queue) set(c *candidate, at int64) {
	w := &c.wakes[q.which]
	w.at = at
	if w.place == 0 {
		q.heap = append(q.heap, c)
		w.place = len(q.heap)
	}
	q.fix(w.place - 1)
}

// drop ends c's waiting, if it waits.
func (q *queue) drop(c *candidate) {
	w := &c.wakes[q.which]
	if w.place == 0 {
		return
	}
	i, last := w.place-1, len(q.heap)-1
	if i != last {
		q.swap(i, last)
	}
	q.heap[last], q.heap, w.place = nil, q.heap[:last], 0
	if i != last {
		q.fix(i)
	}
}

// due takes out the first that waits until at or less.
func (q *queue) due(at int64) *candidate {
	if len(q.heap) == 0 || q.wake(0).at > at {
		return nil
	}
	c := q.heap[0]
	q.drop(c)
	return c
}

func (q *queue) fix(i int) {
	for i > 0 && q.less(i, (i-1)/2) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		k := 2*i + 1
		if k+1 < len(q.heap) && q.less(k+1, k) {
			k++
		}
		if k >= len(q.heap) || !q.less(k, i) {
			return
		}
		q.swap(i, k)
		i = k
	}
}
