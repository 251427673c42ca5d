package feed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

// A patchLog reads RDF patches by version, as servers of RDF Delta publish them: at URL?version=1, 2 and so
// on, or where the URL has {version}. Each patch names the one before. A few versions may be left out.
//
// A patch that cannot be read stops the feed: nothing after it counts until it is repaired.
type patchLog struct {
	feed.Definition
	client client
	url    string
	age    time.Duration // of the answers that say that there is no next patch
	now    func() time.Time
}

const (
	leftOut  = 3       // versions in a row that may be missing in a log
	farthest = 1 << 20 // versions after which a patch is looked for where the first ones are gone
)

// beyond says how far behind the last patch a later one is looked for, one version in each round: a log may
// have lost all versions between them.
var beyond = [...]int64{leftOut + 2, 8, 16, 32, 64, 128, 256, 1024}

// A patchCursor is the last patch that was read.
type patchCursor struct {
	Version int64  `json:"version"`
	ID      string `json:"id"`
}

func (l *patchLog) Follow(ctx context.Context, cursor string, take func(feed.Batch) error) error {
	var at patchCursor
	if cursor != "" {
		if err := json.Unmarshal([]byte(cursor), &at); err != nil {
			return fmt.Errorf("the cursor %.100q cannot be read", cursor)
		}
	} else if l.Since.IsZero() {
		newest, err := l.newest(ctx, 0)
		if err != nil {
			return err
		}
		at = newest
	}
	rounds := 0
	return poll(ctx, l.Interval(), func() error {
		rounds++
		for {
			asked := l.now().UTC()
			b, err := l.next(ctx, &at)
			asked = asked.Add(-l.age)
			if err == nil && len(b.Events) == 0 {
				b.Gap, b.Renumbered, err = l.verify(ctx, &at, beyond[rounds%len(beyond)])
			}
			if err != nil {
				return err
			}
			text, err := json.Marshal(at)
			if err != nil {
				return err
			}
			end := len(b.Events) == 0
			b.More = !end
			if b.Cursor = string(text); end { // so all that was published before is known
				b.Head = feed.Place{Offset: at.Version, Time: asked}
			}
			if err := take(b); err != nil || end {
				return err
			}
		}
	})
}

// next reads the patch after at, which it moves there. The batch has no event if there is none.
func (l *patchLog) next(ctx context.Context, at *patchCursor) (b feed.Batch, err error) {
	l.age = 0
	for version := at.Version + 1; version <= at.Version+1+leftOut; version++ {
		p, err := l.patch(ctx, version)
		long := errors.Is(err, errLong)
		if long {
			p, err = l.beginning(ctx, version)
		}
		switch {
		case gone(err):
			l.age = max(l.age, l.client.age)
			continue
		case err == nil && p.id == "":
			err = fmt.Errorf("the patch of version %d: %w, and does not begin with a row H id", version, errLong)
		}
		if err != nil {
			return b, err
		}
		switch {
		case p.previous == at.ID:
		case at.ID != "":
			b.Renumbered, b.Gap = true, fmt.Sprintf("the patch of version %d follows %s, and not %s, which was the last one", version,
				p.previous, at.ID)
		case at.Version == 0:
			b.Gap = fmt.Sprintf("since: the log has no first versions, and begins with version %d, which follows %s: leave since out to "+
				"begin at its end", version, p.previous)
		}
		place := feed.Place{Offset: version, Time: l.now().UTC()}
		e := feed.Event{Place: place, Added: p.added, Removed: p.removed, Edit: feed.Edit{Text: "patch " + strings.Trim(p.id, "<>")}}
		if long || len(p.added)+len(p.removed) > mostTriples {
			e.Added, e.Removed, e.All = nil, nil, true
		}
		*at = patchCursor{version, p.id}
		b.Events, b.Head = []feed.Event{e}, place
		return b, nil
	}
	return b, nil
}

// verify looks whether a log without next patches still ends with the last one. If it is another log now, or
// has lost patches that were not read, verify moves at to its newest patch and returns what is missing, and whether
// the versions mean other patches now. It looks for a later patch at one version, so far behind the last one.
func (l *patchLog) verify(ctx context.Context, at *patchCursor, behind int64) (gap string, renumbered bool, err error) {
	was := *at
	lost := false
	if was.ID != "" {
		id, err := l.id(ctx, was.Version)
		if err == nil && id == was.ID {
			if _, err = l.id(ctx, was.Version+behind); gone(err) {
				return "", false, nil
			}
			lost = err == nil
		}
		if err != nil && !gone(err) {
			return "", false, err
		}
	}
	newest, err := l.newest(ctx, was.Version)
	if err == nil && newest.ID == "" && was.Version > 0 {
		newest, err = l.newest(ctx, 0)
	}
	switch {
	case err != nil:
		return "", false, err
	case newest.ID == "" && was.ID == "":
		return "", false, errors.New("no patch was found: set url to the address of the log, and wait until it has its first patch")
	case newest.ID == "":
		return "", false, fmt.Errorf("version %d, the last patch that was read, is gone, and no other was found: check url", was.Version)
	}
	*at = newest
	if lost {
		return fmt.Sprintf("versions after %d are missing: the log is read from version %d on", was.Version, newest.Version), false, nil
	}
	if was.ID == "" {
		return fmt.Sprintf("since: the log has no first versions, so it is read from version %d on: leave since out to begin at its end",
			newest.Version), false, nil
	}
	return fmt.Sprintf("version %d is no longer the patch %s, which was read last: the log is read from version %d on",
		was.Version, was.ID, newest.Version), true, nil
}

// newest finds the last patch after a version by doubling and halving. It returns none if there is none, or if
// there are few and far ones only.
func (l *patchLog) newest(ctx context.Context, after int64) (last patchCursor, err error) {
	low, high := after, int64(0) // high is known to be missing
	for step := int64(1); high == 0 || high-low > 1; {
		try := low + step
		if high > 0 {
			try = (low + high) / 2
		}
		before := patchCursor{Version: try - 1}
		b, err := l.next(ctx, &before)
		switch {
		case err != nil:
			return last, err
		case len(b.Events) > 0:
			if low, last, step = before.Version, before, 2*step; high > 0 && low >= high {
				return last, nil
			}
		case last.ID != "":
			high = try
		case step > farthest:
			return last, nil
		default: // the first versions may be gone
			step *= 2
		}
	}
	return last, nil
}

// id reads the id of a patch, and no more than its beginning if it begins with that.
func (l *patchLog) id(ctx context.Context, version int64) (string, error) {
	p, err := l.beginning(ctx, version)
	if err == nil && p.id == "" {
		p, err = l.patch(ctx, version)
	}
	return p.id, err
}

// beginning reads the headers with which a patch begins.
func (l *patchLog) beginning(ctx context.Context, version int64) (patch, error) {
	resp, err := l.open(ctx, version)
	if err != nil {
		return patch{}, err
	}
	defer resp.Body.Close()
	var r patchReader
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		line := strings.TrimSpace(in.Text())
		if line != "" && line[0] != '#' && (!strings.HasPrefix(line, "H ") || r.row(line) != nil) {
			break
		}
	}
	return r.patch, nil
}

func (l *patchLog) open(ctx context.Context, version int64) (*http.Response, error) {
	number := strconv.FormatInt(version, 10)
	at := strings.ReplaceAll(l.url, "{version}", number)
	if at = strings.ReplaceAll(at, "%7Bversion%7D", number); at == l.url {
		at = withQuery(at, "version", number)
	}
	return l.client.get(ctx, at, "Accept", "application/rdf-patch")
}

func (l *patchLog) patch(ctx context.Context, version int64) (p patch, err error) {
	resp, err := l.open(ctx, version)
	if err != nil {
		return p, err
	}
	text, err := body(resp)
	if err == nil {
		p, err = readPatch(string(text))
	}
	if err != nil {
		return p, fmt.Errorf("the patch of version %d: %w; nothing after it is read until the publisher mends it", version, err)
	}
	return p, nil
}

// A patch is one RDF patch.
type patch struct {
	id, previous   string
	added, removed []sparql.Pattern
}

// readPatch reads a patch whole or not at all. Blocks that are aborted do not count.
func readPatch(text string) (p patch, err error) {
	r := patchReader{prefixes: map[string]string{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := r.row(line); err != nil {
			return p, fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch p = r.patch; {
	case p.id == "":
		err = fmt.Errorf("line %d: it ends without a row H id", n)
	case p.id == p.previous:
		err = fmt.Errorf("line %d: it follows itself", n)
	case r.open:
		err = fmt.Errorf("line %d: it ends before the row TC", n)
	}
	return p, err
}

// A patchReader reads the rows of a patch.
type patchReader struct {
	patch
	prefixes map[string]string
	open     bool // in a block
	from     [2]int
}

func (r *patchReader) row(line string) error {
	line, whole := strings.CutSuffix(line, ".")
	if !whole {
		return errors.New("a row without its full stop")
	}
	word, rest, _ := strings.Cut(line, " ")
	l := diff.Line(strings.TrimSpace(rest))
	switch word {
	case "H":
		return r.header(string(l))
	case "TX":
		if r.open {
			return errors.New("TX in a block")
		}
		r.open, r.from = true, [2]int{len(r.added), len(r.removed)}
	case "TC", "TA":
		if !r.open {
			return fmt.Errorf("%s outside of a block", word)
		}
		if r.open = false; word == "TA" {
			r.added, r.removed = r.added[:r.from[0]], r.removed[:r.from[1]]
		}
	case "PA", "PD":
		return r.prefix(word, l)
	case "A", "D":
		t, err := r.terms(l)
		if err != nil {
			return err
		}
		if word == "A" {
			r.added = append(r.added, t)
		} else {
			r.removed = append(r.removed, t)
		}
	default:
		return fmt.Errorf("%.20q is no row of an RDF patch", word)
	}
	return nil
}

func (r *patchReader) header(text string) error {
	name, value, ok := strings.Cut(text, " ")
	if value = strings.TrimSpace(value); !ok || value == "" {
		return errors.New("a header without a value")
	}
	to := map[string]*string{"id": &r.id, "prev": &r.previous}[strings.ToLower(name)]
	if to == nil {
		return nil
	}
	if *to != "" {
		return fmt.Errorf("a second header %s", name)
	}
	*to = value
	return nil
}

func (r *patchReader) prefix(word string, l diff.Line) error {
	f := strings.Fields(string(l))
	if word == "PD" && len(f) >= 1 {
		delete(r.prefixes, strings.Trim(f[0], `":`))
		return nil
	}
	if len(f) < 2 || len(r.prefixes) > 1000 {
		return errors.New("a prefix without a name or address")
	}
	r.prefixes[strings.Trim(f[0], `":`)] = strings.Trim(f[1], `"<>`)
	return nil
}

// terms reads a triple or quad.
func (r *patchReader) terms(l diff.Line) (p sparql.Pattern, err error) {
	to := []*string{&p.Subject, &p.Predicate, &p.Object, &p.Graph}
	n := 0
	for ; !l.Empty(); n++ {
		t, err := registry.NextTerm(&l, r.prefixes)
		if err != nil {
			return p, err
		}
		if n == len(to) || t.Kind != diff.IRI && n == 1 || t.Kind == diff.Literal && n != 2 {
			return p, errors.New("no triple and no quad")
		}
		if *to[n] = field(t); t.Kind == diff.IRI && strings.HasPrefix(t.Value, "_:") {
			*to[n] = "_"
		}
	}
	if n < 3 || slices.Contains([]string{p.Subject, p.Predicate, p.Object}, "<>") {
		return p, errors.New("no triple and no quad")
	}
	return p, nil
}
