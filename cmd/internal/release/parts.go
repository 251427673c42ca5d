package main

// This file lists the parts of the programs in an SBOM.

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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

// contents returns the modules, the standard library and the crates of the engine as parts.
func (r *release) contents(mods []*debug.Module, goVersion string) ([]cyclonedx.Component, error) {
	texts, err := licenseTexts(mods)
	if err != nil {
		return nil, err
	}
	library := func(purl, name, version string) cyclonedx.Component {
		return cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl}
	}
	std := library("pkg:golang/std@"+strings.TrimPrefix(goVersion, "go"), "std", strings.TrimPrefix(goVersion, "go"))
	std.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "BSD-3-Clause"}}}
	list := []cyclonedx.Component{std}
	for i, m := range mods {
		c := library("pkg:golang/"+m.Path+"@"+m.Version, m.Path, m.Version)
		c.Licenses = licensesOf(m.Path, texts[i])
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 { // as in go.sum
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		list = append(list, c)
	}
	inEngine, err := crates(r.engine)
	for _, k := range inEngine {
		c := library("pkg:cargo/"+k.name+"@"+k.version, k.name, k.version)
		c.Licenses = &cyclonedx.Licenses{{Expression: k.license}}
		list = append(list, c)
	}
	return list, err
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
	c.Licenses = &cyclonedx.Licenses{{Expression: engineLicense}}
	parts = append(parts, c)
	contents, err := r.contents(mods, goVersion)
	if err != nil {
		return err
	}
	parts = append(parts, contents...)
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &cyclonedx.Component{
		BOMRef: "pkg:golang/github.com/freshet/freshet@" + r.version, Type: cyclonedx.ComponentTypeApplication, Name: "freshet",
		Version:    r.version,
		PackageURL: "pkg:golang/github.com/freshet/freshet@" + r.version,
		Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}}}
	bom.Components = &parts
	var b bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
