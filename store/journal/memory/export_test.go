package memory

import "github.com/freshet/freshet/store/journal"

// Rewrite replaces the entries of a log.
func (l *Log) Rewrite(f func([]journal.Entry) []journal.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []journal.Entry
	for _, s := range l.entries {
		list = append(list, s.Entry)
	}
	l.entries, l.ids = nil, map[string]uint64{}
	for _, e := range f(list) {
		l.add(e)
	}
}
