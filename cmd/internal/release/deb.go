package main

// This file makes Debian packages with dpkg-deb.

import (
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
const overrides = `%[1]s: statically-linked-binary *
%[1]s: initial-upload-closes-no-bugs *
`

// A debPackage is one of the packages. Its name is that of its program.
type debPackage struct{ name, control string }

var debPackages = []debPackage{
	{"freshet", `Depends: adduser
Recommends: ca-certificates
Suggests: freshet-bench
Section: net
Description: tells applications what changed in results of SPARQL queries
 Freshet runs registered SPARQL queries on endpoints within a budget of
 execution seconds, compares their results exactly, and pushes the rows that
 were added and removed over WebSocket, Server-Sent Events, webhooks, WebSub,
 SEPA and Atom. The package contains the service, its command line, and the
 embedded SPARQL engine of the demo.
`},
	{"freshet-bench", `Recommends: freshet
Breaks: freshet (<< 0.1.1~)
Replaces: freshet (<< 0.1.1~)
Section: science
Description: compares policies that keep results of SPARQL queries fresh
 freshet-bench replays histories of RDF datasets, recorded or generated, under
 several refresh policies and budgets, and writes reports with tables and
 figures. It repeats the experiments of four papers.
`},
}

// has reports whether a file of archives belongs to the package.
func (p debPackage) has(name string) bool {
	bench := strings.HasPrefix(name, "man/man1/freshet-bench")
	if p.name == "freshet" {
		return !bench
	}
	return bench || name == "THIRD-PARTY-LICENSES" || name == "CHANGELOG.md"
}

// debs makes the packages of an architecture.
func (r *release) debs(arch string) error {
	dir, _, err := r.programs("linux/" + arch)
	for _, p := range debPackages {
		err = cmp.Or(err, r.deb(p, arch, filepath.Join(dir, p.name)))
	}
	return err
}

// deb makes a package. The scripts and the configuration of the service are in the directory of its package.
func (r *release) deb(pkg debPackage, arch, program string) error {
	root := filepath.Join(r.work, pkg.name+"-deb-"+arch)
	t := tree{root: root}
	t.copy("usr/bin/"+pkg.name, program, 0o755)
	docs := "usr/share/doc/" + pkg.name + "/"
	for _, f := range r.files {
		for _, p := range debPaths {
			if rest, ok := strings.CutPrefix(f.name, p.from); ok && pkg.has(f.name) && (rest == "" || strings.HasSuffix(p.from, "/")) {
				t.copy(strings.Replace(p.to, "usr/share/doc/freshet/", docs, 1)+rest, f.from, f.mode)
			}
		}
	}
	const packaging = "cmd/freshet/dist/deb/"
	service := pkg.name == "freshet"
	if service {
		t.copy("etc/freshet/freshet.yaml", packaging+"freshet.yaml", 0o644)
	}
	t.write(docs+"copyright", []byte(copyright), 0o644)
	t.write("usr/share/lintian/overrides/"+pkg.name, fmt.Appendf(nil, overrides, pkg.name), 0o644)
	version := debVersion(r.version)
	t.write(docs+"changelog.Debian", fmt.Appendf(nil, "%s (%s) stable; urgency=medium\n\n  * Freshet %s. What changed is in "+
		"changelog.gz.\n\n -- %s  %s\n",
		pkg.name, version, r.version, maintainer, r.time.Format(time.RFC1123Z)), 0o644)
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
	t.write("DEBIAN/control", fmt.Appendf(nil, `Package: %s
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Priority: optional
Homepage: https://github.com/freshet/freshet
%s`, pkg.name, version, arch, maintainer, size>>10, pkg.control), 0o644)
	if service {
		t.write("DEBIAN/conffiles", []byte("/etc/freshet/freshet.yaml\n"), 0o644)
		for _, script := range []string{"postinst", "prerm", "postrm"} {
			t.copy("DEBIAN/"+script, packaging+script, 0o755)
		}
	}
	if t.err != nil {
		return t.err
	}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		return cmp.Or(err, os.Chtimes(path, r.time, r.time))
	})
	if err != nil {
		return err
	}
	pack, level := "-Zxz", "-z3"
	if r.fast {
		pack, level = "-Zgzip", "-z1"
	}
	return command([]string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())}, "dpkg-deb", "--root-owner-group", pack, level,
		"--build", root, filepath.Join(r.out, fmt.Sprintf("%s_%s_%s.deb", pkg.name, version, arch)))
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
	packed := gzipped(b, gzip.BestCompression)
	return errors.Join(os.WriteFile(path+".gz", packed, 0o644), os.Chmod(path+".gz", 0o644), os.Remove(path))
}
