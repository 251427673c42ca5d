package local

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileFormats are the name endings that LoadFile accepts.
var fileFormats = []string{"nt", "nq", "ttl", "trig", "rdf"}

// LoadFile loads a file whose name ends in .nt, .nq, .ttl, .trig or .rdf,
// optionally followed by .gz, as Load does: all of it or nothing.
func (e *Engine) LoadFile(ctx context.Context, path string) error {
	name, zipped := strings.CutSuffix(path, ".gz")
	format := strings.TrimPrefix(filepath.Ext(name), ".")
	if !slices.Contains(fileFormats, format) {
		return fmt.Errorf("load %s: the name must end in one of .%s, or that and .gz", path, strings.Join(fileFormats, ", ."))
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer file.Close()
	source := io.Reader(file)
	if zipped {
		if source, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("load %s: %w", path, err)
		}
	}
	if err := e.Load(ctx, source, format); err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}
