package main

// This file writes archives and checksums.

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// archive writes the archive of a platform and the list of its parts.
func (r *release) archive(platform string) error {
	dir, names, err := r.programs(platform)
	if err != nil {
		return err
	}
	files := slices.Clone(r.files)
	for _, name := range names {
		files = append(files, file{name, filepath.Join(dir, name), 0o755})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	base := "freshet-" + r.version + "-" + strings.ReplaceAll(platform, "/", "-")
	if err := r.bom(filepath.Join(r.out, base+".cdx.json"), dir, names); err != nil {
		return err
	}
	write, suffix := r.tar, ".tar.gz"
	if strings.HasPrefix(platform, "windows/") {
		write, suffix = r.zip, ".zip"
	}
	f, err := os.Create(filepath.Join(r.out, base+suffix))
	if err != nil {
		return err
	}
	return errors.Join(write(f, base, files), f.Close())
}

// level is how much is compressed.
func (r *release) level() int {
	if r.fast {
		return gzip.BestSpeed
	}
	return gzip.DefaultCompression
}

// gzipped packs a file without its name and its time. Writing to memory cannot fail.
func gzipped(b []byte, level int) []byte {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, level)
	_, _ = z.Write(b)
	_ = z.Close()
	return packed.Bytes()
}

func (r *release) tar(w io.Writer, base string, files []file) error {
	z, err := gzip.NewWriterLevel(w, r.level()) // its header has no time
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		b, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: base + "/" + f.name, Mode: int64(f.mode), Size: int64(len(b)), ModTime: r.time, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func (r *release) zip(w io.Writer, base string, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		b, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: base + "/" + f.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(f.mode)
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(b); err != nil {
			return err
		}
	}
	return z.Close()
}

// sums writes SHA256SUMS, which "sha256sum --check" reads.
func (r *release) sums() error {
	list, err := os.ReadDir(r.out) // sorted
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range list {
		sum, err := fileSum(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

func fileSum(path string) (string, error) {
	b, err := os.ReadFile(path)
	return fmt.Sprintf("%x", sha256.Sum256(b)), err
}
