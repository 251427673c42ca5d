package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// A judge compares transcripts with what was true.
type judge struct {
	spans  []span // of slots, by revision
	nets   map[netKey]netChange
	deltas int // deltas that were checked
	folded int // deltas with more than one change
	moved  int // changes that cancelled out
}

// A span is the range of slots that ran during a revision.
type span struct{ first, last uint64 }

type netKey struct {
	fact      *fact
	prev, seq uint64
}

// A netChange is the true difference of two versions as bags, both sorted.
type netChange struct {
	added, removed []string
	same, all      int // rows in common and in either
}

func (j *judge) net(f *fact, prev, seq uint64) netChange {
	key := netKey{f, prev, seq}
	if n, ok := j.nets[key]; ok {
		return n
	}
	var old []string
	if prev > 0 {
		old = f.versions[prev-1].rows
	}
	now := f.versions[seq-1].rows
	if f.ordered {
		old, now = sorted(old), sorted(now)
	}
	n := netChange{added: without(now, old), removed: without(old, now)}
	n.same = len(old) - len(n.removed)
	n.all = len(old) + len(n.added)
	j.nets[key] = n
	return n
}

func sorted(rows []string) []string { return slices.Sorted(slices.Values(rows)) }

// A wireChange is a change or a snapshot in its wire format.
type wireChange struct {
	Slot         uint64
	Form         string
	Baseline     bool
	Truncated    bool
	Jaccard      *float64
	Hash         string
	PreviousHash *string `json:"previous_hash"`
	Added        wireRows
	Removed      wireRows
	Results      wireRows
	AddedAt      []int `json:"added_at"`
	RemovedAt    []int `json:"removed_at"`
	Boolean      bool
	Previous     *bool
}

type wireRows struct {
	Head    json.RawMessage
	Results struct{ Bindings []json.RawMessage }
	Triples []string
	Boolean *bool
}

func (r wireRows) rows() []string {
	if len(r.Results.Bindings) == 0 {
		return r.Triples
	}
	rows := make([]string, len(r.Results.Bindings))
	for i, b := range r.Results.Bindings {
		rows[i] = string(b)
	}
	return rows
}

// texts converts rows to sorted texts in the form of the truth.
func (s shape) texts(rows []string) ([]string, error) {
	if s.form != "SELECT" {
		a, err := readGraph(rows)
		return a.rows, err
	}
	texts := make([]string, len(rows))
	for i, r := range rows {
		var b map[string]jsonTerm
		err := json.Unmarshal([]byte(r), &b)
		if err == nil {
			texts[i], err = bindingText(b)
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(texts)
	return texts, nil
}

// A copyOf is a client's copy of a result.
type copyOf struct {
	shape
	head    json.RawMessage
	rows    []string // unordered ones sorted
	boolean bool
}

func (c *copyOf) document() []byte {
	switch {
	case c.form == "ASK":
		return fmt.Appendf(nil, `{"head":{},"boolean":%t}`, c.boolean)
	case c.form == "SELECT":
		return []byte(`{"head":` + string(c.head) + `,"results":{"bindings":[` + strings.Join(c.rows, ",") + `]}}`)
	case len(c.rows) == 0:
		return nil
	}
	return []byte(strings.Join(c.rows, "\n") + "\n")
}

func (c *copyOf) replace(w wireRows) {
	c.head, c.rows = w.Head, w.rows()
	if w.Boolean != nil {
		c.boolean = *w.Boolean
	}
}

var errNotThere = errors.New("a removed row was not there")

func (c *copyOf) apply(w *wireChange) error {
	added, removed := w.Added.rows(), w.Removed.rows()
	switch {
	case c.form == "ASK":
		if w.Previous != nil && *w.Previous != c.boolean {
			return errNotThere
		}
		c.boolean = w.Boolean
		return nil
	case c.form == "SELECT":
		c.head = w.Added.Head
	}
	if c.ordered {
		return c.applyAt(added, w.AddedAt, removed, w.RemovedAt)
	}
	if !slices.IsSorted(added) || !slices.IsSorted(removed) {
		return errors.New("added or removed is not in canonical order")
	}
	rest := without(c.rows, removed)
	if len(rest) != len(c.rows)-len(removed) {
		return errNotThere
	}
	if len(without(added, removed)) != len(added) {
		return errors.New("a row is both added and removed")
	}
	c.rows = append(rest, added...)
	sort.Strings(c.rows)
	return nil
}

func (c *copyOf) applyAt(added []string, addedAt []int, removed []string, removedAt []int) error {
	if len(added) != len(addedAt) || len(removed) != len(removedAt) {
		return errors.New("rows and indices do not agree")
	}
	rows := slices.Clone(c.rows)
	for i, at := range slices.Backward(removedAt) {
		if at >= len(rows) || rows[at] != removed[i] {
			return errNotThere
		}
		rows = slices.Delete(rows, at, at+1)
	}
	for i, at := range addedAt {
		if at > len(rows) {
			return errors.New("an index lies beyond the end")
		}
		rows = slices.Insert(rows, at, added[i])
	}
	c.rows = rows
	return nil
}

// judge checks a transcript. The result at its end must equal final byte for byte. judge stores the
// hashes of the results on the way in by, by position.
func (j *judge) judge(s *transcript, final []byte, by map[uint64]string) error {
	if len(s.wrong) > 0 {
		return errors.New(strings.Join(s.wrong, "\n"))
	}
	f := s.fact
	c := &copyOf{shape: f.shape}
	at := uint64(0)
	for n, r := range s.records {
		if r.kind == "snapshot" && n > 0 || r.kind != "snapshot" && r.prev != at || r.seq <= at {
			return fmt.Errorf("%s (%d, %d] follows position %d", r.kind, r.prev, r.seq, at)
		}
		if r.seq > uint64(len(f.versions)) {
			return fmt.Errorf("%s (%d, %d]: there were only %d versions", r.kind, r.prev, r.seq, len(f.versions))
		}
		if err := j.record(f, c, r); err != nil {
			return fmt.Errorf("%s (%d, %d]: %w", r.kind, r.prev, r.seq, err)
		}
		by[r.seq] = fingerprint(c.document())
		at = r.seq
	}
	if at != uint64(len(f.versions)) {
		return fmt.Errorf("ends at %d of %d versions", at, len(f.versions))
	}
	if got := c.document(); string(got) != string(final) {
		return fmt.Errorf("ends with another result than the server has:\n%.1000s\n%.1000s", got, final)
	}
	return nil
}

func fingerprint(document []byte) string {
	sum := sha256.Sum256(document)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (j *judge) record(f *fact, c *copyOf, r record) error {
	switch r.kind {
	case "snapshot":
		for n, raw := range r.raw {
			var w wireChange
			if err := json.Unmarshal(raw, &w); err != nil {
				return err
			}
			whole := c.rows
			c.replace(w.Results)
			c.rows = append(whole, c.rows...)
			if n == len(r.raw)-1 && w.Hash != fingerprint(c.document()) {
				return errors.New("the hash is not that of the result")
			}
		}
		return j.same(f, c, r.seq)
	case "alive":
		j.moved++
		if n := j.net(f, r.prev, r.seq); len(n.added)+len(n.removed) > 0 {
			return errors.New("called unchanged, but was changed")
		}
		return nil
	}
	var w wireChange
	if err := json.Unmarshal(r.raw[0], &w); err != nil {
		return err
	}
	if w.Form != f.form || w.Truncated || w.Baseline != (r.prev == 0) {
		return fmt.Errorf("not the change of a %s: %.300s", f.form, r.raw[0])
	}
	j.deltas++
	if r.seq > r.prev+1 {
		j.folded++
	}
	if at := j.spans[f.versions[r.seq-1].revision]; w.Slot < at.first || w.Slot > at.last {
		return fmt.Errorf("comes from slot %d, but was true from slot %d to %d", w.Slot, at.first, at.last)
	}
	if err := j.difference(f, r, &w); err != nil {
		return err
	}
	return j.applied(f, c, r, &w)
}

// difference compares a change's rows with the true difference.
func (j *judge) difference(f *fact, r record, w *wireChange) error {
	n := j.net(f, r.prev, r.seq)
	if w.Baseline != (w.Jaccard == nil) {
		return errors.New("jaccard belongs to every change but the baseline")
	}
	if f.form == "ASK" {
		if got := fmt.Sprint(w.Boolean); got != f.versions[r.seq-1].rows[0] || w.Baseline != (w.Previous == nil) {
			return fmt.Errorf("boolean is %s: %.300s", got, r.raw[0])
		}
		if !w.Baseline && (*w.Jaccard != 1 || *w.Previous == w.Boolean) {
			return fmt.Errorf("no step of an ASK: %.300s", r.raw[0])
		}
		return nil
	}
	if f.blank { // the labels of blank nodes are valid only within a whole result
		return nil
	}
	if d := distance(n); !w.Baseline && math.Abs(*w.Jaccard-d) > 1e-9 {
		return fmt.Errorf("jaccard is %v, not %v", *w.Jaccard, d)
	}
	added, err := f.texts(w.Added.rows())
	if err != nil {
		return err
	}
	removed, err := f.texts(w.Removed.rows())
	if err != nil {
		return err
	}
	if f.ordered { // a row that moved is both removed and added
		added, removed = without(added, removed), without(removed, added)
	}
	if !slices.Equal(added, n.added) || !slices.Equal(removed, n.removed) {
		return fmt.Errorf("is not the difference:\nadded   %.500q\nnot     %.500q\nremoved %.500q\nnot     %.500q", added, n.added,
			removed, n.removed)
	}
	return nil
}

// distance returns the Jaccard distance of two bags.
func distance(n netChange) float64 {
	if n.all == 0 {
		return 0
	}
	return 1 - float64(n.same)/float64(n.all)
}

func (j *judge) applied(f *fact, c *copyOf, r record, w *wireChange) error {
	if r.prev > 0 && (w.PreviousHash == nil || *w.PreviousHash != fingerprint(c.document())) {
		return errors.New("previous_hash is not that of the result before")
	}
	if err := c.apply(w); err != nil {
		return err
	}
	if got := fingerprint(c.document()); w.Hash != got {
		return fmt.Errorf("hash is %s, but the change leads to %s: %.300s", w.Hash, got, c.document())
	}
	if f.blank || f.ordered || r.prev == 0 {
		return j.same(f, c, r.seq)
	}
	return nil
}

// same compares a whole result with the truth.
func (j *judge) same(f *fact, c *copyOf, seq uint64) error { return isVersion(f, c.document(), seq) }

func isVersion(f *fact, document []byte, seq uint64) error {
	a, err := f.read(document)
	if err != nil {
		return err
	}
	if truth := f.versions[seq-1].rows; !slices.Equal(a.rows, truth) {
		return fmt.Errorf("the result is not the truth at %d:\n%.1000q\n%.1000q", seq, a.rows, truth)
	}
	return nil
}
