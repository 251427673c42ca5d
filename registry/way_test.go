package registry

import "testing"

// Every way is listed once and has a title of its own.
func TestWays(t *testing.T) {
	titles := map[string]bool{}
	connected := 0
	for _, w := range Ways {
		if title := w.Title(); title == string(w) || titles[title] {
			t.Errorf("%s: the title is %q", w, title)
		}
		titles[w.Title()] = true
		if w.Connected() {
			connected++
		}
	}
	if connected == 0 || connected == len(Ways) {
		t.Errorf("%d of %d ways are connected", connected, len(Ways))
	}
	if w := Way("newer"); w.Title() != "newer" || w.Connected() {
		t.Errorf("an unknown way: title %q, connected %t", w.Title(), w.Connected())
	}
}
