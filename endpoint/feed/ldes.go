package feed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

// An ldes reads a Linked Data Event Stream: pages in Turtle or N-Triples that link each other and have members.
//
// Every page that is not immutable is asked for again, with its ETag, and one immutable page each time: a server
// that changes it has lied, which is a gap. A member is an event when it is seen first, in whatever order pages
// and members are. What the version before had is not said, so the entity of a member is Loose.
type ldes struct {
	feed.Definition
	client client
	pause  time.Duration
	url    string
	lost   time.Time // since when a page is missing
	now    func() time.Time
	begun  *walk  // that failed
	told   string // the cursor that was handed over last; pages that begun has read since tell nothing
}

const (
	longestEvery = 240 // seconds that a stream may ask for: a feed that is asked more seldom counts as silent
	betweenPages = 20 * time.Millisecond
	lostFor      = 300 // pauses after which a page that is missing counts as removed: five minutes
	mostPages    = 10_000
	mostOlder    = 3      // immutable pages that are asked for to see whether old members are kept
	mostTogether = 5000   // events of a batch
	mostEnded    = 1000   // transactions that are remembered
	mostLinks    = 20_000 // that are remembered; no page is forgotten if there are more
	mostMembers  = 20_000 // that are remembered; all members of a page count again if it changes after that
	mostThings   = 20_000 // that are remembered, and as many parts; an event may touch all the others
)

// Name spaces, as patterns begin.
const (
	ldesSpace = "<https://w3id.org/ldes#"
	treeSpace = "<https://w3id.org/tree#"
)

// An ldesCursor is what is known of the pages.
type ldesCursor struct {
	Pages map[string]*page `json:"pages"`
	Ended []string         `json:"ended,omitempty"` // the last transactions that ended
	About about            `json:"about,omitzero"`
	// Things are the hashes of the entities of members, and Parts those of the subjects within the members of others.
	Things hashes `json:"things,omitempty"`
	Parts  hashes `json:"parts,omitempty"`
	// First means that the first walk has not ended: members older than Since are no events, none is if that is zero.
	First bool      `json:"first,omitempty"`
	Head  time.Time `json:"head,omitzero"` // when the last walk began that ended
}

// hashes are 64-bit numbers, packed: a cursor is written often.
type hashes []byte

func (h hashes) add(n uint64) hashes { return binary.BigEndian.AppendUint64(h, n) }

func (h hashes) set() map[uint64]bool {
	set := make(map[uint64]bool, len(h)/8)
	for ; len(h) >= 8; h = h[8:] {
		set[binary.BigEndian.Uint64(h)] = true
	}
	return set
}

// An about is what pages have said about the stream. Most pages leave that to the root.
type about struct {
	VersionOf      string `json:"version_of,omitempty"` // predicates
	Timestamp      string `json:"timestamp,omitempty"`
	Transaction    string `json:"transaction,omitempty"`
	Finalized      string `json:"finalized,omitempty"`
	FinalizedValue string `json:"finalized_value,omitempty"`
	Every          int    `json:"every,omitempty"` // seconds between requests for what may change
	Short          bool   `json:"short,omitempty"` // members are removed when they are old
}

// learn takes over what a page says about the stream.
func (a *about) learn(g *graph) {
	for to, from := range map[*string]string{
		&a.VersionOf: "versionOfPath>", &a.Timestamp: "timestampPath>", &a.Transaction: "transactionPath>",
		&a.Finalized: "transactionFinalizedPath>", &a.FinalizedValue: "transactionFinalizedObject>",
	} {
		*to = cmp.Or(first(g.objects("", ldesSpace+from)), *to)
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(first(g.objects("", ldesSpace+"pollingInterval>")), `"`)); err == nil && n > 0 {
		a.Every = min(max(n, 5), longestEvery)
	}
	for _, policy := range g.objects("", ldesSpace+"retentionPolicy>") { // the last version of a thing tells what is to be known
		a.Short = a.Short || !g.has(policy, rdfType, ldesSpace+"LatestVersionSubset>")
	}
}

// known reports whether the stream was described, so that members are versions only if VersionOf says so.
func (a *about) known() bool { return a.VersionOf != "" || a.Timestamp != "" }

type page struct {
	ETag      string    `json:"etag,omitempty"`
	To        string    `json:"to,omitempty"`     // the address to which its own one led
	Digest    uint64    `json:"digest,omitempty"` // 0: not read yet
	Whole     bool      `json:"whole,omitempty"`  // its members are hashes of whole terms: those of older versions are not
	Immutable bool      `json:"immutable,omitempty"`
	Gone      bool      `json:"gone,omitempty"`    // for good: nothing can come on it any more
	Missing   bool      `json:"missing,omitempty"` // it counts as removed until it is back
	Members   []uint64  `json:"members,omitempty"` // hashes, see hashOf
	Part      bool      `json:"part,omitempty"`    // not all members are among them
	Oldest    time.Time `json:"oldest,omitzero"`   // of its members
	Links     hashes    `json:"links"`             // of the addresses of other pages, nil if they are not known
}

func (l *ldes) Follow(ctx context.Context, cursor string, take func(feed.Batch) error) error {
	w := &walk{ldes: l, take: take, ldesCursor: ldesCursor{Pages: map[string]*page{l.url: {}}, First: cursor == ""}}
	switch was := l.begun; {
	case was != nil && l.told == cursor:
		w.ldesCursor = was.ldesCursor
	case cursor != "":
		if err := json.Unmarshal([]byte(cursor), &w.ldesCursor); err != nil || w.Pages == nil {
			return fmt.Errorf("the cursor %.100q cannot be read", cursor)
		}
	}
	l.begun, l.told = nil, cursor
	w.things, w.parts = w.Things.set(), w.Parts.set()
	if list := w.immutable(); len(list) > 0 { // which one comes next is not stored
		w.next = list[rand.IntN(len(list))]
	}
	for {
		if err := w.all(ctx); err != nil {
			if !w.refused && len(w.batch.Events) == 0 && w.batch.Gap == "" { // all that was read is told
				l.begun = w
			}
			return err
		}
		every := l.Interval()
		if w.About.Every > 0 && l.Every == 0 {
			every = min(time.Duration(w.About.Every)*time.Second, cmp.Or(time.Duration(l.Silence)/2, longestEvery*time.Second))
		}
		if err := endpoint.Sleep(ctx, every); err != nil {
			return err
		}
	}
}

// A walk reads all pages again and again.
type walk struct {
	*ldes
	ldesCursor
	take func(feed.Batch) error
	head time.Time     // when the last walk of this reading began
	age  time.Duration // of the oldest answer of a walk
	next string        // the immutable page that is looked at again

	things, parts map[uint64]bool // as in the cursor

	batch   feed.Batch // of the pages that were read, because each delivery has the whole cursor
	triples int
	refused bool // by take
}

// all reads every page that may have changed, and the pages that these link.
func (w *walk) all(ctx context.Context) error {
	asked := w.now().UTC()
	w.age = 0
	seen := map[string]bool{}
	for {
		todo := slices.DeleteFunc(slices.Sorted(maps.Keys(w.Pages)), func(at string) bool {
			return seen[at] || w.Pages[at].Gone || w.Pages[at].Immutable && at != w.next
		})
		if len(todo) == 0 {
			break
		}
		for _, at := range todo {
			if len(seen) > 0 {
				if err := endpoint.Sleep(ctx, betweenPages); err != nil {
					return err
				}
			}
			seen[at] = true
			if err := w.page(ctx, at); err != nil {
				return cmp.Or(w.deliver(), err)
			}
		}
	}
	b := feed.Batch{}
	if w.head.IsZero() && !w.First {
		kept, err := w.keeps(ctx, seen)
		if err != nil {
			return cmp.Or(w.deliver(), err)
		}
		if !kept {
			b.Gap = fmt.Sprintf("the stream was last read at %s, and it seems to have nothing from before that, because it keeps no older "+
				"members", clock(w.Head))
		}
	}
	w.forget()
	w.next, w.lost = w.nextImmutable(), time.Time{}
	if err := w.deliver(); err != nil {
		return err
	}
	w.Head = asked.Add(-w.age)
	w.head = w.Head
	if w.First { // members that came during the walk are no events, or are told by the next one
		b.More, b.Partial = true, true
		if oldest := w.oldest(); w.About.Short && !w.Since.IsZero() && oldest.After(w.Since) {
			b.Gap = fmt.Sprintf("since: the stream has nothing before %s, because it keeps no older members: set since to a later time, "+
				"or leave it out", clock(oldest))
		}
		w.head, w.First = w.now().UTC(), false
	}
	return w.hand(b)
}

// keeps reports whether the stream keeps all members, or has a page with one from before the last walk: what came while
// nothing was read has not become too old then.
func (w *walk) keeps(ctx context.Context, seen map[string]bool) (bool, error) {
	if !w.About.Short || w.Head.IsZero() {
		return true, nil
	}
	early := func(p *page) bool { return !p.Gone && !p.Oldest.IsZero() && !p.Oldest.After(w.Head) }
	var unseen []string // or from a cache: they are immutable
	for at, p := range w.Pages {
		switch {
		case early(p) && seen[at] && !p.Immutable:
			return true, nil
		case early(p):
			unseen = append(unseen, at)
		}
	}
	slices.SortFunc(unseen, func(a, b string) int { // the first one is the last that is removed
		return cmp.Or(w.Pages[b].Oldest.Compare(w.Pages[a].Oldest), strings.Compare(a, b))
	})
	for _, at := range unseen[:min(len(unseen), mostOlder)] {
		if err := endpoint.Sleep(ctx, betweenPages); err != nil {
			return false, err
		}
		if err := w.page(ctx, at); err != nil {
			return false, err
		}
		if early(w.Pages[at]) && w.client.age == 0 { // a cache may have it for longer
			return true, nil
		}
	}
	return false, nil
}

// forget forgets the removed pages that no page links. One that links them again has changed, and they are read.
func (w *walk) forget() {
	linked := map[uint64]bool{}
	for _, p := range w.Pages {
		if !p.Gone && !p.Missing {
			if p.Links == nil {
				return
			}
			maps.Copy(linked, p.Links.set())
		}
	}
	maps.DeleteFunc(w.Pages, func(at string, p *page) bool { return (p.Gone || p.Missing) && !linked[xxh3.HashString(at)] })
}

// oldest returns the oldest time of a member.
func (w *walk) oldest() (oldest time.Time) {
	for _, p := range w.Pages {
		if oldest.IsZero() || !p.Oldest.IsZero() && p.Oldest.Before(oldest) {
			oldest = p.Oldest
		}
	}
	return oldest
}

// immutable returns the immutable pages in order.
func (w *walk) immutable() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(w.Pages)), func(at string) bool { return !w.Pages[at].Immutable })
}

// nextImmutable returns the immutable page after the one that was looked at.
func (w *walk) nextImmutable() string {
	list := w.immutable()
	if len(list) == 0 {
		return ""
	}
	i, found := slices.BinarySearch(list, w.next)
	if found {
		i++
	}
	return list[i%len(list)]
}

// add adds what a page tells to the batch.
func (w *walk) add(b feed.Batch) error {
	for i := range b.Events {
		w.triples += len(b.Events[i].Added)
	}
	w.batch.Events = append(w.batch.Events, b.Events...)
	if !w.First || !w.Since.IsZero() {
		w.batch.Gap = cmp.Or(w.batch.Gap, b.Gap)
	}
	if w.triples > mostBatch || len(w.batch.Events) > mostTogether || w.batch.Gap != "" {
		return w.deliver()
	}
	return nil
}

// deliver hands over what the pages that were read tell, if that is anything.
func (w *walk) deliver() error {
	b := w.batch
	w.batch, w.triples = feed.Batch{}, 0
	if len(b.Events) == 0 && b.Gap == "" {
		return nil
	}
	b.More, b.Partial = true, w.First
	return w.hand(b)
}

func (w *walk) hand(b feed.Batch) error {
	b.Head.Time = w.head
	text, err := json.Marshal(w.ldesCursor)
	if err != nil {
		return err
	}
	b.Cursor = string(text)
	w.told = b.Cursor
	err = w.take(b)
	w.refused = err != nil
	return err
}

// page reads a page if it has changed.
func (w *walk) page(ctx context.Context, at string) error {
	p := w.Pages[at]
	resp, to, err := w.ask(ctx, at, p)
	defer func(age time.Duration) {
		if !p.Immutable {
			w.age = max(w.age, age)
		}
	}(w.client.age)
	missing := gone(err) && at != w.url
	forever := p.Immutable || forGood(err) // an immutable page was read whole
	if missing && p.Missing && !forever {
		return nil
	}
	if missing && !forever {
		if w.lost.IsZero() {
			w.lost = time.Now()
		}
		if time.Since(w.lost) < lostFor*w.pause { // it may be back, with other members
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	if missing { // retention
		told := p.Immutable || p.Missing
		if *p = (page{Digest: 1, Gone: forever, Missing: !forever, Part: true}); !told {
			return w.add(feed.Batch{Gap: fmt.Sprintf("the page %s was removed before it was read to its end", at)})
		}
		return nil
	} else if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	text, err := body(resp)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if resp.StatusCode == 304 {
		return nil
	}
	alone(len(text), func() { err = w.read(p, at, to, text, resp.Header) })
	return err
}

// ask asks for a page, and returns where its address led, if not to itself. That it has not changed is said of what was there
// before: another page may have the same ETag.
func (w *walk) ask(ctx context.Context, at string, p *page) (resp *http.Response, to string, err error) {
	fields := []string{"Accept", "text/turtle, application/n-triples;q=0.9"}
	if p.ETag != "" && p.Whole {
		resp, to, err = w.get(ctx, at, append(fields, "If-None-Match", p.ETag)...)
		if err != nil || resp.StatusCode != http.StatusNotModified || to == p.To {
			return resp, to, err
		}
		resp.Body.Close()
	}
	if resp, to, err = w.get(ctx, at, fields...); err == nil && resp.StatusCode == http.StatusNotModified {
		resp.Body.Close()
		err = errors.New("304 Not Modified answers a request without a condition")
	}
	return resp, to, err
}

func (w *walk) get(ctx context.Context, at string, fields ...string) (resp *http.Response, to string, err error) {
	resp, err = w.client.get(ctx, at, fields...)
	if err == nil && resp.Request.Response != nil && resp.Request.URL.String() != at {
		to = resp.Request.URL.String()
	}
	return resp, to, err
}

// read reads the text of a page that is where its address led, if not to itself. Another page may be there the next time, so
// that what is said of that one's changes does not count.
func (w *walk) read(p *page, at, to string, text []byte, header http.Header) error {
	digest, etag, base := max(xxh3.Hash(text), 1), header.Get("ETag"), cmp.Or(to, at)
	same := p.Digest == digest && p.To == to
	if same && p.Whole {
		p.ETag = etag
		return nil
	}
	if !p.Whole { // an older version read it, which kept no ETag of another address, or none did
		same = p.Digest == digest || p.ETag != "" && p.ETag == etag && to == ""
	}
	format := formats.Turtle
	if strings.HasPrefix(header.Get("Content-Type"), "application/n-triples") {
		format = formats.NTriples
	}
	list, err := pageTriples(format, text, base)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	g := newGraph(list)
	links, err := w.link(g, at)
	if err != nil {
		return err
	}
	if len(w.Pages) > mostPages {
		return fmt.Errorf("the stream has more than %d pages, which is too many to follow: set url to a part of it", mostPages)
	}
	// From here on, the page counts as read.
	b := feed.Batch{}
	if p.Immutable && !same {
		b.Gap = fmt.Sprintf("the page %s has changed although it is immutable", at)
	}
	if !p.Whole && !same { // hashes do not tell which members it had
		p.Members, p.Part = nil, p.Part || len(p.Members) > 0
	}
	p.ETag, p.To, p.Digest, p.Whole, p.Missing, p.Links = etag, to, digest, true, false, nil
	most := 8 * mostLinks
	for _, other := range w.Pages {
		most -= len(other.Links)
	}
	if len(links) <= most {
		p.Links = links
	}
	p.Immutable = to == "" && strings.Contains(header.Get("Cache-Control"), "immutable") ||
		g.has("<"+at+">", ldesSpace+"immutable>", `"true`)
	w.About.learn(g)
	b.Events = w.members(g, p, same)
	return w.add(b)
}

// pageTriples reads a page. Labels of blank nodes are kept, so that its parts stay together.
func pageTriples(f formats.Format, text []byte, at string) (list []statement, err error) {
	err = formats.Triples(f, text, at, mostBytes, labelled(&list))
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("it has more than %d triples: the publisher has to make smaller pages", mostPage)
	}
	return list, err
}

// link adds the pages that a page links, and returns their hashes. No relation is left out: a stream may add a member to
// any page. Other servers are not asked, which is an error unless they have only another view.
func (w *walk) link(g *graph, from string) (links hashes, err error) {
	links, here, other, seen := hashes{}, false, "", map[uint64]bool{}
	nodes := g.objects("", treeSpace+"node>")
	for i, node := range append(nodes, g.objects("", treeSpace+"view>")...) {
		to := strings.Trim(node, "<>")
		if j := strings.IndexByte(to, '#'); j >= 0 {
			to = to[:j]
		}
		switch {
		case !strings.HasPrefix(node, "<"):
		case sameHost(w.url, to):
			if here = true; w.Pages[to] == nil {
				w.Pages[to] = &page{}
			}
			if h := xxh3.HashString(to); !seen[h] {
				seen[h], links = true, links.add(h)
			}
		case i < len(nodes) || other == "":
			if other = to; i < len(nodes) {
				return nil, elsewhere(from, to)
			}
		}
	}
	if other != "" && !here {
		return nil, elsewhere(from, other)
	}
	return links, nil
}

func elsewhere(from, to string) error {
	return fmt.Errorf("the page %s leads to %s, which has another host or scheme and is not read: set url to an address there", from, to)
}

// members returns the events of the members that are new. None is if the page is the same.
func (w *walk) members(g *graph, p *page, same bool) (events []feed.Event) {
	remembered := 0
	for _, other := range w.Pages {
		remembered += len(other.Members)
	}
	kept, before, names, part := []uint64{}, map[uint64]int{}, map[uint64]bool{}, p.Part
	for _, hash := range p.Members {
		names[hash>>32] = true
		before[hash]++
	}
	had := func(hash uint64) bool { // one more of them
		before[hash]--
		return before[hash] >= 0
	}
	p.Oldest, p.Part = time.Time{}, false
	ended := w.end(g)
	for m := range unique(g.objects("", treeSpace+"member>")) {
		list := g.reach(m)
		hash := hashOf(m, list)
		id, known := first(g.objects(m, w.About.Transaction)), had(hash) || same
		open := id != "" && !ended[id] && !known
		if open {
			p.Digest, p.ETag, p.Immutable = 0, "", false // it counts once more when the transaction has ended
		}
		switch {
		case remembered >= mostMembers, p.Immutable:
			p.Part = true
		case open:
			kept = append(kept, unfinished(hash))
		default:
			kept = append(kept, hash)
		}
		w.note(list, m, first(g.objects(m, w.About.VersionOf)))
		at := parseTime(first(g.objects(m, w.About.Timestamp)))
		if !at.IsZero() && (p.Oldest.IsZero() || at.Before(p.Oldest)) {
			p.Oldest = at
		}
		if known || w.First && (w.Since.IsZero() || !at.IsZero() && at.Before(w.Since)) {
			continue
		}
		entity := first(g.objects(m, w.About.VersionOf))
		e := memberEvent(list, m, entity)
		e.Time = w.now().UTC()
		inPlace := (part || names[hash>>32] || strings.HasPrefix(m, "_") && len(p.Members) > 0) && !had(unfinished(hash))
		if (entity != "" || inPlace) && !e.All { // parts of what was there before may be gone
			e.Loose = append(e.Loose, feed.Loose{Apart: w.apart, Gone: true})
		}
		if len(list) == 0 || !w.About.known() { // what it says, or is, is elsewhere
			e = feed.Event{Place: e.Place, Edit: e.Edit, All: true}
		}
		events = append(events, e)
	}
	p.Members = kept
	return events
}

// hashOf returns a hash of the name of a member, and one of its triples, which is longer if it has no name. Labels of blank
// nodes say where on its page a member is, so they do not count.
func hashOf(member string, list []statement) uint64 {
	labels := map[string]string{}
	label := func(term string) string {
		if !strings.HasPrefix(term, "_:") {
			return term
		}
		if labels[term] == "" {
			labels[term] = fmt.Sprint("_:", len(labels))
		}
		return labels[term]
	}
	var text bytes.Buffer
	for _, t := range list {
		text.WriteString(label(t.Subject) + "\x00" + t.Predicate + "\x00" + label(t.Object) + "\x00" + t.kind + "\x00")
	}
	if strings.HasPrefix(member, "_") {
		return xxh3.Hash(text.Bytes()) >> 1 << 1
	}
	return xxh3.HashString(member)>>32<<32 | xxh3.Hash(text.Bytes())>>33<<1
}

// unfinished is the hash of a member whose transaction has not ended.
func unfinished(hash uint64) uint64 { return hash | 1 }

// note notes which entity a member is about, and the subjects that are parts of it.
func (w *walk) note(list []statement, member, entity string) {
	if entity == "" {
		return
	}
	if h := xxh3.HashString(entity); !w.things[h] && len(w.things) < mostThings {
		w.things[h], w.Things = true, w.Things.add(h)
	}
	for _, t := range list {
		if t.Subject == member || t.Subject == entity || strings.HasPrefix(t.Subject, "_") {
			continue
		}
		if h := xxh3.HashString(t.Subject); !w.parts[h] && len(w.parts) <= mostThings {
			w.parts[h], w.Parts = true, w.Parts.add(h)
		}
	}
}

// apart reports whether a subject is known to be an entity that has members of its own and is no part of others.
func (w *walk) apart(subject string) bool {
	h := xxh3.HashString(subject)
	return w.things[h] && !w.parts[h] && len(w.parts) <= mostThings
}

// end notes the last transactions that end on a page. It returns all that have ended, as far as is known.
func (w *walk) end(g *graph) map[string]bool {
	ended := map[string]bool{}
	for _, id := range w.Ended {
		ended[id] = true
	}
	path, end := w.About.Transaction, w.About.Finalized
	if path == "" || end == "" {
		return ended
	}
	want := cmp.Or(w.About.FinalizedValue, `"true`)
	for _, t := range g.all {
		if t.Predicate == path && g.has(t.Subject, end, want) && !ended[t.Object] {
			ended[t.Object] = true
			w.Ended = append(w.Ended, t.Object)
		}
	}
	w.Ended = slices.Clone(w.Ended[max(0, len(w.Ended)-mostEnded):])
	return ended
}

// memberEvent says what a version object changed: its own triples are new, and those of the entity.
func memberEvent(list []statement, member, entity string) feed.Event {
	e := feed.Event{Edit: feed.Edit{Text: "member " + strings.Trim(member, "<>")}}
	if len(list) > mostTriples {
		e.All = true
		return e
	}
	of := func(s string) string {
		switch {
		case strings.HasPrefix(s, "_"):
			return "_"
		case s == member && entity != "":
			return entity
		}
		return s
	}
	subjects := map[string]bool{}
	for _, t := range list {
		whole := sparql.Pattern{Subject: of(t.Subject), Predicate: t.Predicate, Object: of(t.Object)}
		e.Added = append(e.Added, whole)
		if entity == "" {
			continue
		}
		if subjects[whole.Subject] = true; strings.HasPrefix(whole.Object, "<") { // its triples may be elsewhere
			subjects[whole.Object] = true
		}
		if t.Subject == member || t.Object == member { // where versions are kept
			e.Added = append(e.Added, t.Pattern)
		}
	}
	if entity != "" { // what the version before had is removed where only the last one is kept
		e.Entity, subjects[entity] = strings.Trim(entity, "<>"), true
		e.Edit.Text = "version " + strings.Trim(member, "<>") + " of " + e.Entity
		e.Loose = []feed.Loose{{Subjects: slices.Sorted(maps.Keys(subjects))}}
	}
	return e
}

// unique returns each of a list once.
func unique(list []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for _, s := range list {
			if !seen[s] && !yield(s) {
				return
			}
			seen[s] = true
		}
	}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// parseTime reads an xsd:dateTime or xsd:date, zero if it is neither.
func parseTime(literal string) time.Time {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(form, strings.TrimPrefix(literal, `"`)); err == nil {
			return t
		}
	}
	return time.Time{}
}
