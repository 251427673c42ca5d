package feed

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

// A changesets reads changesets in the layout of DBpedia Live, from a directory or over HTTP.
type changesets struct {
	feed.Definition
	publication *Publication
	log         *slog.Logger
	now         func() time.Time
}

// Follow reads the changesets after those that were published when it is called first.
func (s *changesets) Follow(ctx context.Context, cursor string, take func(feed.Batch) error) error {
	p := s.publication
	next, err := ParseChangeset(cursor)
	switch {
	case cursor == "" && s.Since.IsZero():
		next, err = p.Last(ctx)
		next = next.Next()
	case cursor == "":
		next, err = ChangesetID{hour: s.Since.UTC().Truncate(time.Hour)}, nil
	}
	if err != nil {
		return err
	}
	begun := cursor != ""
	early := "" // what to do about a beginning that is no longer published
	if !begun {
		early = ": set since to a later time, or leave it out to begin now"
	}
	return poll(ctx, s.Interval(), func() error {
		asked := s.now().UTC()
		last, err := p.Last(ctx)
		if err != nil {
			return err
		}
		asked = asked.Add(-p.client.age)
		gap := ""
		if read := next.before(); last.Before(read) {
			if begun {
				gap = fmt.Sprintf("the publication ends with %s, although %s was there before: it is read from there on", last, read)
			}
			next = last.Next()
		}
		for begun = true; !last.Before(next); {
			missing := p.missing
			c, err := p.Read(ctx, next, s.log)
			if err != nil {
				return err
			}
			if c == nil {
				after := p.After(next, last)
				if lost, err := p.lost(ctx, next, after); err != nil {
					return err
				} else if lost {
					gap = fmt.Sprintf("the publication has nothing between %s and %s", next, after)
				}
				next = after
				continue
			}
			if missing >= maxMissing {
				gap = fmt.Sprintf("the publication has nothing for the %d numbers before %s", missing, next)
			}
			if gap != "" && early != "" {
				gap = "since: " + gap + early
			}
			early = ""
			e := c.event()
			e.Time, e.Edit.Text = s.now().UTC(), "changeset "+next.String()
			next = next.Next()
			if err := take(feed.Batch{Events: []feed.Event{e}, Cursor: next.String(), Head: e.Place, Gap: gap, More: true}); err != nil {
				return err
			}
			gap = ""
		}
		return take(feed.Batch{Cursor: next.String(), Head: feed.Place{Time: asked}, Gap: gap})
	})
}

// lost reports whether changesets may be missing after c, where the next one to try is after: all of its hour, or
// ones with later numbers in it.
func (p *Publication) lost(ctx context.Context, c, after ChangesetID) (bool, error) {
	if after.hour.Equal(c.hour) {
		return false, nil
	}
	if c.number < maxMissing || after.hour.Sub(c.hour) > time.Hour {
		return true, nil
	}
	for step := 1; step <= farNumbers; step *= 2 {
		found, err := p.Read(ctx, ChangesetID{c.hour, c.number + step}, slog.New(slog.DiscardHandler))
		if found != nil || err != nil {
			return true, err
		}
	}
	return false, nil
}

// A ChangesetID identifies a changeset in the layout of DBpedia Live. Numbers count
// from 0 in each hour. A changeset without changes has no files.
type ChangesetID struct {
	hour   time.Time
	number int
}

const hourForm = "2006-01-02-15"

// ParseChangeset reads YYYY-MM-DD-HH-NNNNNN.
func ParseChangeset(s string) (c ChangesetID, err error) {
	s = strings.TrimSpace(s)
	if len(s) != len(hourForm)+7 || s[len(hourForm)] != '-' {
		return c, fmt.Errorf("%.40q is not of the form YYYY-MM-DD-HH-NNNNNN", s)
	}
	if c.hour, err = time.Parse(hourForm, s[:len(hourForm)]); err == nil {
		_, err = fmt.Sscanf(s[len(hourForm)+1:], "%06d", &c.number)
	}
	if err != nil || c.number < 0 {
		return c, fmt.Errorf("%.40q is not of the form YYYY-MM-DD-HH-NNNNNN", s)
	}
	return c, nil
}

// String returns the id as YYYY-MM-DD-HH-NNNNNN.
func (c ChangesetID) String() string {
	return fmt.Sprintf("%s-%06d", c.hour.Format(hourForm), c.number)
}

// path is the path of its files, without their suffix.
func (c ChangesetID) path() string {
	return fmt.Sprintf("%s/%06d", c.hour.Format("2006/01/02/15"), c.number)
}

// Next returns the id of the next number in the hour.
func (c ChangesetID) Next() ChangesetID { return ChangesetID{c.hour, c.number + 1} }

// before returns the id of the number before in the hour, if there is one.
func (c ChangesetID) before() ChangesetID { return ChangesetID{c.hour, max(0, c.number-1)} }

// Before reports whether c was published before o.
func (c ChangesetID) Before(o ChangesetID) bool {
	if !c.hour.Equal(o.hour) {
		return c.hour.Before(o.hour)
	}
	return c.number < o.number
}

// A Publication is a directory or URL where changesets are published.
type Publication struct {
	dir     string // empty for a URL
	base    string
	client  client
	pause   time.Duration
	missing int // numbers in a row without files

	newest string    // in a directory without lastPublishedFile.txt: the last changeset and its files
	since  time.Time // when it was first seen like that
}

const mostCleared = 1000 // subjects of an event

const (
	maxChangesetSize = 1 << 30 // bytes of one uncompressed file
	maxHours         = 72      // how far back after searches for the next changeset; what is older is a gap
	maxMissing       = 3       // missing numbers in a row that end an hour
	farNumbers       = 256     // how far in an hour that ends lost changesets are looked for
	wholeAfter       = 5       // pauses without a change after which the files of a changeset count as all there
)

// OpenPublication opens a publication: a directory or an HTTP URL.
func OpenPublication(at string, o Options) (*Publication, error) {
	if u, err := url.Parse(at); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return &Publication{base: strings.TrimRight(at, "/"), client: newClient(o)}, nil
	}
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is neither a directory nor an http URL", at)
	}
	return &Publication{dir: at, pause: cmp.Or(o.Pause, time.Second)}, nil
}

// open opens a file. The error wraps fs.ErrNotExist when it does not exist.
func (p *Publication) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if p.dir != "" {
		return os.Open(filepath.Join(p.dir, filepath.FromSlash(name)))
	}
	resp, err := p.client.get(ctx, p.base+"/"+name, "Accept-Encoding", "identity") // the files themselves may be compressed
	if gone(err) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", p.base, name, err)
	}
	return resp.Body, nil
}

// Last returns the newest published changeset. In a directory without
// lastPublishedFile.txt that is the newest of the files, once no more of them come.
func (p *Publication) Last(ctx context.Context) (ChangesetID, error) {
	f, err := p.open(ctx, "lastPublishedFile.txt")
	if errors.Is(err, fs.ErrNotExist) && p.dir != "" {
		return p.lastWhole(ctx)
	}
	if err != nil {
		return ChangesetID{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 100))
	if err != nil {
		return ChangesetID{}, err
	}
	return ParseChangeset(string(b))
}

// lastWhole returns the newest changeset of a directory whose files are all there: they have stayed as they are for a while,
// or another one came after it.
func (p *Publication) lastWhole(ctx context.Context) (ChangesetID, error) {
	for waited := ""; ; {
		all, err := local.Changesets(p.dir)
		if err != nil || len(all) == 0 {
			return ChangesetID{}, err
		}
		last := all[len(all)-1]
		if now := files(last); now != p.newest {
			p.newest, p.since = now, time.Now()
		}
		wait := wholeAfter*p.pause - time.Since(p.since)
		if waited != "" && last.Name > waited && len(all) > 1 {
			last, wait = all[len(all)-2], 0
		}
		if wait <= 0 {
			return ParseChangeset(strings.ReplaceAll(last.Name, "/", "-"))
		}
		waited = last.Name
		if err := endpoint.Sleep(ctx, wait); err != nil {
			return ChangesetID{}, err
		}
	}
}

// files describes a changeset by its files as they are.
func files(c local.Changeset) string {
	text := c.Name
	for _, part := range slices.Sorted(maps.Keys(c.Files)) {
		text += " " + c.Files[part]
		if info, err := os.Stat(c.Files[part]); err == nil {
			text += fmt.Sprint(" ", info.Size(), info.ModTime().UnixNano())
		}
	}
	return text
}

// After returns the changeset to try when c does not exist: the next number while its
// hour may have more, otherwise the first of the next hour.
func (p *Publication) After(c, last ChangesetID) ChangesetID {
	if p.missing++; c.hour.Equal(last.hour) || p.missing < maxMissing {
		c.number++
		return c
	}
	p.missing, c.number = 0, 0
	if c.hour = c.hour.Add(time.Hour); last.hour.Sub(c.hour) > maxHours*time.Hour {
		c.hour = last.hour.Add(-maxHours * time.Hour)
	}
	return c
}

// A Changeset is what one changeset says.
type Changeset struct {
	registry.Hint          // its triples; one that it removes and adds is in there twice
	Damaged       []string // files that are cut off; their complete lines count
	cleared       []string // subjects of which all triples are removed
	removed       int      // of the triples of the hint, the first ones
}

// Read reads a changeset. It returns nil if there are no files.
func (p *Publication) Read(ctx context.Context, id ChangesetID, log *slog.Logger) (*Changeset, error) {
	c, found := &Changeset{}, false
	var removed, added registry.Hint
	for _, part := range []string{"clear", "removed", "added", "reinserted"} {
		h := &removed
		if part == "added" || part == "reinserted" {
			h = &added
		}
		for _, suffix := range []string{".nt.gz", ".nt"} {
			f, err := p.open(ctx, id.path()+"."+part+suffix)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			err = touch(h, f, suffix == ".nt.gz")
			f.Close()
			if err != nil && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				name := id.String() + "." + part
				c.Damaged = append(c.Damaged, name)
				log.Warn("a file of a changeset is cut off, what could be read of it counts", "file", name, "err", err)
			}
			found = true
			break
		}
		if part == "clear" {
			for _, t := range removed.Changed {
				c.cleared = append(c.cleared, t.Subject)
			}
			slices.Sort(c.cleared)
			c.cleared = slices.Compact(c.cleared)
		}
	}
	if !found {
		return nil, nil
	}
	p.missing = 0
	c.Skipped = removed.Skipped + added.Skipped
	c.All = removed.All || added.All || len(removed.Changed)+len(added.Changed) > registry.MaxTouched
	if !c.All {
		c.Changed, c.removed = append(removed.Changed, added.Changed...), len(removed.Changed)
	}
	return c, nil
}

// event says what the changeset changed. What it removed without showing it is Loose.
func (c *Changeset) event() (e feed.Event) {
	if c.All || c.Skipped > 0 || len(c.Damaged) > 0 || len(c.cleared) > mostCleared {
		return feed.Event{All: true}
	}
	if len(c.cleared) > 0 {
		e.Loose = []feed.Loose{{Subjects: c.cleared}}
	}
	e.Removed, e.Added = c.Changed[:c.removed], c.Changed[c.removed:]
	return e
}

func touch(h *registry.Hint, r io.Reader, packed bool) error {
	if packed {
		z, err := gzip.NewReader(r)
		if err != nil {
			return err
		}
		r = z
	}
	return h.Triples(io.LimitReader(r, maxChangesetSize))
}
