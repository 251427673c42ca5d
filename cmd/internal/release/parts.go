package main

// This file lists the parts of the programs, in an SBOM and by their licences.

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// engineLock is the file that pins the embedded engine.
const engineLock = "endpoint/local/package-lock.json"

// engineVersion reads the version of the engine from its lock file.
func engineVersion() (string, error) {
	b, err := os.ReadFile(engineLock)
	if err != nil {
		return "", err
	}
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	if err := json.Unmarshal(b, &lock); err != nil {
		return "", fmt.Errorf("%s: %w", engineLock, err)
	}
	version := lock.Packages["node_modules/oxigraph"].Version
	if version == "" {
		return "", fmt.Errorf("%s names no version of oxigraph", engineLock)
	}
	return version, nil
}

// modules returns the modules in programs, sorted by path, and the version of Go.
func modules(dir string, names []string) (list []*debug.Module, goVersion string, err error) {
	for _, name := range names {
		info, err := buildinfo.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, "", err
		}
		goVersion = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b *debug.Module) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(list, func(a, b *debug.Module) bool { return a.Path == b.Path }), goVersion, nil
}

// bom writes the parts of an archive as a CycloneDX document.
func (r *release) bom(path, dir string, names []string) error {
	mods, goVersion, err := modules(dir, names)
	if err != nil {
		return err
	}
	engine, err := engineVersion()
	if err != nil {
		return err
	}
	hashed := func(kind cyclonedx.ComponentType, name, version, purl, from string) (cyclonedx.Component, error) {
		sum, err := fileSum(from)
		return cyclonedx.Component{BOMRef: cmp.Or(purl, name), Type: kind, Name: name, Version: version, PackageURL: purl,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}}, err
	}
	var parts []cyclonedx.Component
	for _, name := range names {
		c, err := hashed(cyclonedx.ComponentTypeApplication, name, r.version, "", filepath.Join(dir, name))
		if err != nil {
			return err
		}
		parts = append(parts, c)
	}
	c, err := hashed(cyclonedx.ComponentTypeLibrary, "oxigraph", engine, "pkg:npm/oxigraph@"+engine, r.engine)
	if err != nil {
		return err
	}
	parts = append(parts, c)
	for _, m := range append(mods, &debug.Module{Path: "std", Version: strings.TrimPrefix(goVersion, "go")}) {
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		parts = append(parts, cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl})
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &cyclonedx.Component{
		BOMRef: "pkg:golang/github.com/freshet/freshet@" + r.version, Type: cyclonedx.ComponentTypeApplication, Name: "freshet", Version: r.version,
		PackageURL: "pkg:golang/github.com/freshet/freshet@" + r.version,
		Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}}}
	bom.Components = &parts
	var b bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|authors)`)

// licenses writes the licences of all parts into one file, as they require.
func (r *release) licenses(path, dir string, names []string) error {
	mods, goVersion, err := modules(dir, names)
	if err != nil {
		return err
	}
	engine, err := engineVersion()
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "The programs contain the parts below. Their licences follow.\n\noxigraph %s, the embedded SPARQL engine (oxigraph.wasm): MIT or Apache-2.0, at your choice.\nThe text of Apache-2.0 is in the file LICENSE.\n", engine)
	add := func(name, from string) error {
		list, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		found := false
		for _, e := range list {
			if !e.Type().IsRegular() || !licenseFile.MatchString(e.Name()) {
				continue
			}
			b, err := os.ReadFile(filepath.Join(from, e.Name()))
			if err != nil {
				return err
			}
			found = true
			fmt.Fprintf(&text, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), name, e.Name(), strings.TrimSpace(string(b)))
		}
		if !found { // as old modules that name their licence in the comments of the source
			fmt.Fprintf(&text, "\n%s\n%s has no licence file: see the comments of its source.\n", strings.Repeat("=", 80), name)
		}
		return nil
	}
	if err := add(goVersion, output("go", "env", "GOROOT")); err != nil {
		return err
	}
	ask := []string{"list", "-m", "-f", "{{.Dir}}"}
	for _, m := range mods {
		ask = append(ask, m.Path)
	}
	dirs := strings.Split(output("go", ask...), "\n")
	if len(dirs) != len(mods) || slices.Contains(dirs, "") {
		return errors.New("go list knows no directory of a module: run \"go mod download\"")
	}
	for i, m := range mods {
		if err := add(m.Path+" "+m.Version, dirs[i]); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
