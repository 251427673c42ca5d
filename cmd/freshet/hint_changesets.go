package main

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

// A counter names a changeset of a publication in the layout of DBpedia Live:
// numbers count from 0 in each hour. One that changed nothing has no files.
type counter struct {
	hour   time.Time
	number int
}

const hourForm = "2006-01-02-15"

// parseCounter reads YYYY-MM-DD-HH-NNNNNN.
func parseCounter(s string) (c counter, err error) {
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

func (c counter) String() string { return fmt.Sprintf("%s-%06d", c.hour.Format(hourForm), c.number) }

// path is where its files are, without their suffix.
func (c counter) path() string {
	return fmt.Sprintf("%s/%06d", c.hour.Format("2006/01/02/15"), c.number)
}

func (c counter) before(o counter) bool {
	if !c.hour.Equal(o.hour) {
		return c.hour.Before(o.hour)
	}
	return c.number < o.number
}

// A publication is a place where changesets appear.
type publication struct {
	dir    string // "" for one that is read over HTTP
	base   string
	client *http.Client
	holes  int // numbers in a row that were not there
}

// A place is where following begins, and where that is kept.
type place struct{ file, from string }

// keep writes down what comes next. The file is never half written.
func (p place) keep(next counter) error {
	if p.file == "" {
		return nil
	}
	if err := os.WriteFile(p.file+".new", []byte(next.String()+"\n"), 0o644); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	if err := os.Rename(p.file+".new", p.file); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

const (
	mostChangeset = 1 << 30 // bytes of one file, unpacked
	mostHours     = 24 * 31 // looked through for the next changeset at a time
	mostHoles     = 3       // numbers in a row that are missing before an hour is over
)

func openPublication(at string) (*publication, error) {
	if u, err := url.Parse(at); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return &publication{base: strings.TrimRight(at, "/"), client: &http.Client{Timeout: 5 * time.Minute}}, nil
	}
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return nil, cli.UsageErrorf("--changesets: %s is neither a directory nor an http URL", at)
	}
	return &publication{dir: at}, nil
}

// open opens a file; the error is fs.ErrNotExist when there is none.
func (p *publication) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if p.dir != "" {
		return os.Open(filepath.Join(p.dir, filepath.FromSlash(name)))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/"+name, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "freshet/"+cli.Version())
	req.Header.Set("Accept-Encoding", "identity") // the files are packed as they are
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

// last is the newest changeset published. A directory without
// lastPublishedFile.txt has it among its files.
func (p *publication) last(ctx context.Context) (counter, error) {
	f, err := p.open(ctx, "lastPublishedFile.txt")
	if errors.Is(err, fs.ErrNotExist) && p.dir != "" {
		all, err := local.Changesets(p.dir)
		if err != nil || len(all) == 0 {
			return counter{}, err
		}
		return parseCounter(strings.ReplaceAll(all[len(all)-1].Name, "/", "-"))
	}
	if err != nil {
		return counter{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 100))
	if err != nil {
		return counter{}, err
	}
	return parseCounter(string(b))
}

// begin is the first changeset to read: what was kept, what was asked for, or
// what comes after the last one.
func (p *publication) begin(ctx context.Context, at place) (counter, error) {
	if at.file != "" {
		b, err := os.ReadFile(at.file)
		if err == nil {
			c, err := parseCounter(string(b))
			if err != nil {
				return c, cli.UsageErrorf("--state: %s: %v", at.file, err)
			}
			return c, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return counter{}, cli.UsageErrorf("--state: %v", err)
		}
	}
	if at.from != "" {
		c, err := parseCounter(at.from)
		if err != nil {
			return c, cli.UsageErrorf("--from: %v", err)
		}
		return c, nil
	}
	c, err := p.last(ctx)
	c.number++
	return c, err
}

// after is where to go on when c is not there: with the next number, as long as
// more is published in its hour or there may be, else with the next hour.
func (p *publication) after(c, last counter) counter {
	if p.holes++; c.hour.Equal(last.hour) || p.holes < mostHoles {
		c.number++
		return c
	}
	p.holes, c.number = 0, 0
	if c.hour = c.hour.Add(time.Hour); last.hour.Sub(c.hour) > mostHours*time.Hour {
		c.hour = last.hour.Add(-mostHours * time.Hour)
	}
	return c
}

// read reads what a changeset touches; found is false when no file of it is
// there. Of a file that is cut off, what is whole counts.
func (p *publication) read(ctx context.Context, c counter, warn io.Writer) (h *registry.Hint, found bool, err error) {
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
	return h.Triples(io.LimitReader(r, mostChangeset))
}
