// Package changesets reads published changesets in the layout of DBpedia Live, from a directory or over HTTP.
package changesets

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/registry"
)

// An ID identifies a changeset in the layout of DBpedia Live. Numbers count
// from 0 in each hour. A changeset without changes has no files.
type ID struct {
	hour   time.Time
	number int
}

const hourForm = "2006-01-02-15"

// parseID reads YYYY-MM-DD-HH-NNNNNN.
func parseID(s string) (c ID, err error) {
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
func (c ID) String() string {
	return fmt.Sprintf("%s-%06d", c.hour.Format(hourForm), c.number)
}

// path is the path of its files, without their suffix.
func (c ID) path() string {
	return fmt.Sprintf("%s/%06d", c.hour.Format("2006/01/02/15"), c.number)
}

// Next returns the id of the next number in the hour.
func (c ID) Next() ID { return ID{c.hour, c.number + 1} }

// Before reports whether c was published before o.
func (c ID) Before(o ID) bool {
	if !c.hour.Equal(o.hour) {
		return c.hour.Before(o.hour)
	}
	return c.number < o.number
}

// A Publication is a directory or URL where changesets are published.
type Publication struct {
	dir     string // empty for a URL
	base    string
	client  *http.Client
	missing int // missing numbers in a row
}

// A Checkpoint says where following begins: at the changeset in File, else at From.
type Checkpoint struct{ File, From string }

// Write stores the next changeset to read. It replaces the file atomically.
func (c Checkpoint) Write(next ID) error {
	if c.File == "" {
		return nil
	}
	_, err := cli.WriteFile(c.File, 0o644, func(w io.Writer) (int64, error) {
		n, err := fmt.Fprintln(w, next)
		return int64(n), err
	})
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

const (
	maxChangesetSize = 1 << 30 // bytes of one uncompressed file
	maxHours         = 24 * 31 // how far back after searches for the next changeset
	maxMissing       = 3       // missing numbers in a row that end an hour
)

// Open opens a publication: a directory or an HTTP URL.
func Open(at string) (*Publication, error) {
	if u, err := url.Parse(at); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return &Publication{base: strings.TrimRight(at, "/"), client: &http.Client{Timeout: 5 * time.Minute}}, nil
	}
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return nil, cli.UsageErrorf("--changesets: %s is neither a directory nor an http URL", at)
	}
	return &Publication{dir: at}, nil
}

// open opens a file. The error wraps fs.ErrNotExist when it does not exist.
func (p *Publication) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if p.dir != "" {
		return os.Open(filepath.Join(p.dir, filepath.FromSlash(name)))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/"+name, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "freshet/"+cli.Version())
	req.Header.Set("Accept-Encoding", "identity") // the files themselves may be compressed
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp.Body, nil
	case http.StatusNotFound, http.StatusGone:
		err = fs.ErrNotExist
	default:
		err = errors.New(resp.Status)
	}
	resp.Body.Close()
	return nil, fmt.Errorf("%s/%s: %w", p.base, name, err)
}

// Last returns the newest published changeset. In a directory without
// lastPublishedFile.txt that is the newest of the files.
func (p *Publication) Last(ctx context.Context) (ID, error) {
	f, err := p.open(ctx, "lastPublishedFile.txt")
	if errors.Is(err, fs.ErrNotExist) && p.dir != "" {
		all, err := local.Changesets(p.dir)
		if err != nil || len(all) == 0 {
			return ID{}, err
		}
		return parseID(strings.ReplaceAll(all[len(all)-1].Name, "/", "-"))
	}
	if err != nil {
		return ID{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 100))
	if err != nil {
		return ID{}, err
	}
	return parseID(string(b))
}

// Begin returns the first changeset to read: the one in the Checkpoint's file, else
// the one that --from names, else the one after the last published.
func (p *Publication) Begin(ctx context.Context, start Checkpoint) (ID, error) {
	if start.File != "" {
		b, err := os.ReadFile(start.File)
		if err == nil {
			c, err := parseID(string(b))
			if err != nil {
				return c, cli.UsageErrorf("--state: %s: %v", start.File, err)
			}
			return c, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return ID{}, cli.UsageErrorf("--state: %v", err)
		}
	}
	if start.From != "" {
		c, err := parseID(start.From)
		if err != nil {
			return c, cli.UsageErrorf("--from: %v", err)
		}
		return c, nil
	}
	c, err := p.Last(ctx)
	c.number++
	return c, err
}

// After returns the changeset to try when c does not exist: the next number while its
// hour may have more, otherwise the first of the next hour.
func (p *Publication) After(c, last ID) ID {
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

// Read reads the terms that a changeset touches. found is false when it has no files.
// The complete lines of a truncated file count.
func (p *Publication) Read(ctx context.Context, c ID, warn io.Writer) (h *registry.Hint, found bool, err error) {
	h = &registry.Hint{}
	for _, part := range []string{"clear", "removed", "added", "reinserted"} {
		for _, suffix := range []string{".nt.gz", ".nt"} {
			f, err := p.open(ctx, c.path()+"."+part+suffix)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, false, err
			}
			err = touch(h, f, suffix == ".nt.gz")
			f.Close()
			if err != nil && ctx.Err() != nil {
				return nil, false, ctx.Err()
			}
			if err != nil {
				fmt.Fprintf(warn, "%s.%s: %v; what could be read of it counts\n", c, part, err)
			}
			found = true
			break
		}
	}
	if found {
		p.missing = 0
	}
	return h, found, nil
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
