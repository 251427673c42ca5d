package main

// This file makes packages for Fedora, RHEL, openSUSE and others that use RPM.

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/rpmpack"
)

// rpmArchs are the names of architectures.
var rpmArchs = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// rpmPlaces are the directories that have other names than on Debian.
var rpmPlaces = strings.NewReplacer("usr/share/zsh/vendor-completions", "usr/share/zsh/site-functions", "lib/systemd/system",
	"usr/lib/systemd/system",
	"usr/share/doc/freshet/changelog", "usr/share/doc/freshet/CHANGELOG.md")

// Scripts of the service. Whether it starts at boot is up to the presets of the system.
const (
	rpmBefore = `getent group freshet >/dev/null || groupadd -r freshet
getent passwd freshet >/dev/null || useradd -r -g freshet -d /var/lib/freshet -M -s /sbin/nologin -c Freshet freshet
exit 0
`
	rpmAfter = `command -v systemctl >/dev/null || exit 0
[ -d /run/systemd/system ] && systemctl daemon-reload
[ "$1" = 1 ] && systemctl --no-reload preset freshet.service >/dev/null 2>&1
exit 0
`
	rpmBeforeRemoval = `command -v systemctl >/dev/null || exit 0
[ "$1" = 0 ] || exit 0
systemctl --no-reload disable freshet.service >/dev/null 2>&1
[ -d /run/systemd/system ] && systemctl stop freshet.service
exit 0
`
	rpmAfterRemoval = `command -v systemctl >/dev/null && [ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
[ "$1" -ge 1 ] && systemctl try-restart freshet.service
exit 0
`
)

// rpmVersion turns a version into the form of RPM.
func rpmVersion(version string) string { return strings.TrimSuffix(debVersion(version), "-1") }

// rpms makes the packages of an architecture.
func (r *release) rpms(arch string) error {
	dir, _, err := r.programs("linux/" + arch)
	for _, p := range debPackages {
		err = cmp.Or(err, r.rpm(p, arch, filepath.Join(dir, p.name)))
	}
	return err
}

// rpm makes a package with the same files as that of Debian.
func (r *release) rpm(pkg debPackage, arch, program string) error {
	_, text, _ := strings.Cut(pkg.control, "Description: ")
	summary, text, _ := strings.Cut(text, "\n")
	meta := rpmpack.RPMMetaData{Name: pkg.name, Summary: summary, Description: strings.TrimSpace(strings.ReplaceAll("\n"+text, "\n ",
		"\n")), Version: rpmVersion(r.version), Release: "1",
		Arch: rpmArchs[arch], Vendor: "Freshet", URL: "https://github.com/freshet/freshet", Packager: maintainer, Licence: "Apache-2.0",
		BuildHost:  "localhost",
		Compressor: "zstd", BuildTime: r.time, Epoch: rpmpack.NoEpoch}
	if r.fast {
		meta.Compressor = "zstd:1"
	}
	service := pkg.name == "freshet"
	needs, also := []string{"/usr/sbin/useradd", "/usr/sbin/groupadd", "/usr/bin/getent"}, "ca-certificates"
	if !service {
		needs, also = nil, "freshet"
	}
	var err error
	for _, name := range needs {
		err = errors.Join(err, meta.Requires.Set(name))
	}
	if err = errors.Join(err, meta.Recommends.Set(also)); err != nil {
		return err
	}
	p, err := rpmpack.NewRPM(meta)
	if err != nil {
		return err
	}
	add := func(f rpmpack.RPMFile, from string) {
		b, wrong := os.ReadFile(from)
		if strings.HasPrefix(f.Name, "/usr/share/man/") {
			f.Name, b = f.Name+".gz", gzipped(b, gzip.DefaultCompression)
		}
		f.Body, err = b, errors.Join(err, wrong)
		f.Owner, f.Group, f.MTime = cmp.Or(f.Owner, "root"), cmp.Or(f.Group, "root"), uint32(r.time.Unix())
		p.AddFile(f)
	}
	add(rpmpack.RPMFile{Name: "/usr/bin/" + pkg.name, Mode: 0o100755}, program)
	for _, f := range r.files {
		for _, at := range debPaths {
			if rest, ok := strings.CutPrefix(f.name, at.from); ok && pkg.has(f.name) && (rest == "" || strings.HasSuffix(at.from, "/")) {
				to := "/" + strings.Replace(rpmPlaces.Replace(at.to), "usr/share/doc/freshet/", "usr/share/doc/"+pkg.name+"/", 1) + rest
				kind := rpmpack.GenericFile
				if strings.HasPrefix(to, "/usr/share/doc/") || strings.HasPrefix(to, "/usr/share/man/") {
					kind = rpmpack.DocFile
				}
				add(rpmpack.RPMFile{Name: to, Mode: 0o100000 | uint(f.mode.Perm()), Type: kind}, f.from)
			}
		}
	}
	add(rpmpack.RPMFile{Name: "/usr/share/licenses/" + pkg.name + "/LICENSE", Mode: 0o100644, Type: rpmpack.LicenceFile}, "LICENSE")
	if service {
		add(rpmpack.RPMFile{Name: "/etc/freshet/freshet.yaml", Mode: 0o100640, Group: "freshet",
			Type: rpmpack.ConfigFile | rpmpack.NoReplaceFile}, "cmd/freshet/dist/deb/freshet.yaml")
		for name, owner := range map[string]string{"/etc/freshet": "root", "/var/lib/freshet": "freshet"} {
			p.AddFile(rpmpack.RPMFile{Name: name, Mode: 0o40750, Owner: owner, Group: "freshet", MTime: uint32(r.time.Unix())})
		}
		p.AddPrein(rpmBefore)
		p.AddPostin(rpmAfter)
		p.AddPreun(rpmBeforeRemoval)
		p.AddPostun(rpmAfterRemoval)
	}
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, fmt.Sprintf("%s-%s-1.%s.rpm", pkg.name, meta.Version, meta.Arch)), b.Bytes(), 0o644)
}
