package cli

// This file writes files of the user's as a whole.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes a file atomically: it is complete or as it was before. It returns the bytes that write reports.
func WriteFile(path string, mode os.FileMode, write func(io.Writer) (int64, error)) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".freshet-*")
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = &fs.PathError{Op: "write", Path: path, Err: p.Err} // without the name of the temporary file
		}
		return 0, err
	}
	defer os.Remove(f.Name())
	if n, err = write(f); err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return n, fmt.Errorf("%s is not complete: %w", path, err)
	}
	return n, os.Rename(f.Name(), path)
}
