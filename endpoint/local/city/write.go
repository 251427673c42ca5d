package city

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
)

// WriteDir writes base.nt.gz and the next n steps as changesets below
// dir/changesets in the layout of DBpedia Live: a folder per hour of the city's
// time, with changesets numbered from 000000, and no file for an empty part.
// Only a new city's steps continue the base.
func (c *City) WriteDir(dir string, n int) error {
	if err := writeZipped(filepath.Join(dir, "base.nt.gz"), c.base); err != nil {
		return err
	}
	for range n {
		removed, added := c.Next()
		t := c.Time()
		// One changeset a minute: the number within the hour is the minute.
		name := filepath.Join(dir, "changesets", filepath.FromSlash(t.Format("2006/01/02/15")), fmt.Sprintf("%06d", t.Minute()))
		for suffix, lines := range map[string][]byte{".removed.nt.gz": removed, ".added.nt.gz": added} {
			if len(lines) == 0 {
				continue
			}
			at := t.Format("2006-01-02T15:04:05Z")
			body := fmt.Appendf(nil, "# started %s\n%s# completed %s\n", at, lines, at)
			if err := writeZipped(name+suffix, body); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeZipped(path string, data []byte) error {
	var b bytes.Buffer
	z := gzip.NewWriter(&b) // without name and time: the same bytes each time
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the city: %w", err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the city: %w", err)
	}
	return nil
}
