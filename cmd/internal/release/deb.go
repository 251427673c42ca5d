package main

// This file makes Debian packages with dpkg-deb.

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maintainer of the package. The project has no address for mail.
const maintainer = "Freshet maintainers <freshet@users.noreply.github.com>"

// debPaths says where the files of archives go; a name that ends in a slash is a directory.
var debPaths = []struct{ from, to string }{
	{"man/man1/", "usr/share/man/man1/"},
	{"completions/freshet.bash", "usr/share/bash-completion/completions/freshet"},
	{"completions/_freshet", "usr/share/zsh/vendor-completions/_freshet"},
	{"completions/freshet.fish", "usr/share/fish/vendor_completions.d/freshet.fish"},
	{"freshet.service", "lib/systemd/system/freshet.service"},
	{"CHANGELOG.md", "usr/share/doc/freshet/changelog"},
	{"README.md", "usr/share/doc/freshet/README.md"},
	{"THIRD-PARTY-LICENSES", "usr/share/doc/freshet/THIRD-PARTY-LICENSES"},
	{"freshet.example.yaml", "usr/share/doc/freshet/freshet.example.yaml"},
	{"freshet.rules.yml", "usr/share/doc/freshet/examples/freshet.rules.yml"},
	{"freshet.dashboard.json", "usr/share/doc/freshet/examples/freshet.dashboard.json"},
	{"freshet.results.dashboard.json", "usr/share/doc/freshet/examples/freshet.results.dashboard.json"},
}

// debVersion turns a version into Debian's form: what follows a hyphen comes before the
// version itself.
func debVersion(version string) string {
	return strings.ReplaceAll(strings.TrimPrefix(version, "v"), "-", "~") + "-1"
}

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Freshet
Source: https://github.com/freshet/freshet
Comment: The licences of the parts that the programs contain are in the file
 THIRD-PARTY-LICENSES beside this one.

Files: *
Copyright: 2026 The Freshet authors
License: Apache-2.0
 On Debian systems, the text of the licence is in
 /usr/share/common-licenses/Apache-2.0.
`

// overrides are for Debian's checker: Go links statically, and the package is not uploaded
// to Debian.
const overrides = `freshet: statically-linked-binary *
freshet: initial-upload-closes-no-bugs *
`

// deb makes the package of an architecture. Its scripts and its configuration are in the
// directory of the service.
func (r *release) deb(arch string) error {
	dir, names, err := r.programs("linux/" + arch)
	if err != nil {
		return err
	}
	root := filepath.Join(r.work, "deb-"+arch)
	t := tree{root: root}
	for _, name := range names {
		t.copy("usr/bin/"+name, filepath.Join(dir, name), 0o755)
	}
	for _, f := range r.files {
		for _, p := range debPaths {
			if rest, ok := strings.CutPrefix(f.name, p.from); ok && (rest == "" || strings.HasSuffix(p.from, "/")) {
				t.copy(p.to+rest, f.from, f.mode)
			}
		}
	}
	const packaging = "cmd/freshet/dist/deb/"
	t.copy("etc/freshet/freshet.yaml", packaging+"freshet.yaml", 0o644)
	t.write("usr/share/doc/freshet/copyright", []byte(copyright), 0o644)
	t.write("usr/share/lintian/overrides/freshet", []byte(overrides), 0o644)
	version := debVersion(r.version)
	t.write("usr/share/doc/freshet/changelog.Debian", fmt.Appendf(nil, "freshet (%s) stable; urgency=medium\n\n  * Freshet %s. What changed is in changelog.gz.\n\n -- %s  %s\n",
		version, r.version, maintainer, r.time.Format(time.RFC1123Z)), 0o644)
	t.each(func(path string) error { return compress(root, path) })
	var sums strings.Builder
	size := int64(0)
	t.each(func(path string) error {
		b, err := os.ReadFile(filepath.Join(root, path))
		size += int64(len(b))
		if !strings.HasPrefix(path, "etc/") {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(b), path)
		}
		return err
	})
	t.write("DEBIAN/md5sums", []byte(sums.String()), 0o644)
	t.write("DEBIAN/conffiles", []byte("/etc/freshet/freshet.yaml\n"), 0o644)
	t.write("DEBIAN/control", fmt.Appendf(nil, `Package: freshet
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Depends: adduser
Recommends: ca-certificates
Section: net
Priority: optional
Homepage: https://github.com/freshet/freshet
Description: tells applications what changed in results of SPARQL queries
 Freshet runs registered SPARQL queries on endpoints within a budget of
 execution seconds, compares their results exactly, and pushes the rows that
 were added and removed over WebSocket, Server-Sent Events, webhooks, WebSub,
 SEPA and Atom. The package contains the service, its command line, the
 embedded SPARQL engine of the demo, and freshet-bench, which compares
 policies.
`, version, arch, maintainer, size>>10), 0o644)
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		t.copy("DEBIAN/"+script, packaging+script, 0o755)
	}
	if t.err != nil {
		return t.err
	}
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		return cmp.Or(err, os.Chtimes(path, r.time, r.time))
	})
	if err != nil {
		return err
	}
	return command([]string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())}, "dpkg-deb", "--root-owner-group", "-Zxz", "-z3",
		"--build", root, filepath.Join(r.out, fmt.Sprintf("freshet_%s_%s.deb", version, arch)))
}

// A tree is the content of a package. It keeps the first error.
type tree struct {
	root string
	err  error
}

func (t *tree) copy(to, from string, mode fs.FileMode) {
	b, err := os.ReadFile(from)
	t.err = cmp.Or(t.err, err)
	t.write(to, b, mode)
}

func (t *tree) write(to string, b []byte, mode fs.FileMode) {
	if t.err != nil {
		return
	}
	path := filepath.Join(t.root, to)
	// The modes do not depend on the umask.
	t.err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, mode), os.Chmod(path, mode))
	for dir := filepath.Dir(path); t.err == nil && len(dir) >= len(t.root); dir = filepath.Dir(dir) {
		t.err = os.Chmod(dir, 0o755)
	}
}

// each calls do for the path of each file below the root, in order.
func (t *tree) each(do func(path string) error) {
	if t.err != nil {
		return
	}
	var paths []string
	t.err = filepath.WalkDir(t.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(t.root, path)
			paths = append(paths, filepath.ToSlash(path))
		}
		return err
	})
	slices.Sort(paths)
	for _, path := range paths {
		t.err = cmp.Or(t.err, do(path))
	}
}

// compress packs the files that Debian wants packed.
func compress(root, path string) error {
	if !strings.HasPrefix(path, "usr/share/man/") && !strings.HasPrefix(filepath.Base(path), "changelog") {
		return nil
	}
	path = filepath.Join(root, path)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(b); err != nil {
		return err
	}
	return errors.Join(z.Close(), os.WriteFile(path+".gz", packed.Bytes(), 0o644), os.Chmod(path+".gz", 0o644), os.Remove(path))
}
