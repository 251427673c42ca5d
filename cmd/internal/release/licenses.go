package main

// This file collects the licences of the parts of the programs.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// A licenseText is a file of a module about its licence or that of a part of it.
type licenseText struct{ name, text string }

var (
	licenseFile   = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|authors)(\.(txt|md|rst))?([-._].*)?$`)
	licenseFolder = regexp.MustCompile(`(?i)^licen[cs]es?$`)
)

// licensesIn reads the licence files of a folder and all below it, because parts of a
// module may have other licences. Files in a folder "licenses" are licences, whatever
// their names are.
func licensesIn(root string) (list []licenseText, err error) {
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || e.Name() == "vendor"):
			return filepath.SkipDir
		case e.IsDir() || filepath.Ext(path) == ".go":
			return nil
		case !licenseFile.MatchString(e.Name()) && !licenseFolder.MatchString(filepath.Base(filepath.Dir(path))):
			return nil
		}
		b, err := os.ReadFile(path) // of the target, if the file is a link
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		list = append(list, licenseText{filepath.ToSlash(name), strings.TrimSpace(string(b))})
		return err
	})
	return list, err
}

// licenseTexts returns the licence files of each module.
func licenseTexts(mods []*debug.Module) ([][]licenseText, error) {
	ask := []string{"list", "-m", "-f", "{{.Dir}}"}
	for _, m := range mods {
		ask = append(ask, m.Path)
	}
	dirs := strings.Split(output("go", ask...), "\n")
	if len(dirs) != len(mods) || slices.Contains(dirs, "") {
		return nil, errors.New("go list knows no directory of a module: run \"go mod download\"")
	}
	list := make([][]licenseText, len(mods))
	for i, dir := range dirs {
		var err error
		if list[i], err = licensesIn(dir); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// licenseMarks are words that only one licence has, the more special ones first.
var licenseMarks = []struct{ id, words string }{
	{"Apache-2.0", "Apache License"},
	{"CC-BY-4.0", "Creative Commons Attribution 4.0"},
	{"MPL-2.0", "Mozilla Public License"},
	{"FTL", "The FreeType Project LICENSE"},
	{"OFL-1.1", "SIL OPEN FONT LICENSE"},
	{"GPL-2.0-only", "GNU GENERAL PUBLIC LICENSE"},
	{"Unlicense", "This is free and unencumbered software"},
	{"ISC", "Permission to use, copy, modify, and/or distribute"},
	{"ISC", "Permission to use, copy, modify, and distribute"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"BSD-3-Clause", "Neither the name"},
	{"BSD-3-Clause", "may be used to endorse or promote products"},
	{"BSD-2-Clause", "Redistributions of source code must retain"},
}

// licenseIDs returns the SPDX ids of licences, each once.
func licenseIDs(texts []licenseText) (ids []string) {
	for _, t := range texts {
		plain := strings.Join(strings.Fields(t.text), " ")
		for _, m := range licenseMarks {
			if strings.Contains(plain, m.words) {
				ids = append(ids, m.id)
				break
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// declaredLicenses are the licences of modules whose files do not say enough.
var declaredLicenses = map[string]string{
	"github.com/golang/freetype": "FTL OR GPL-2.0-or-later",
	"github.com/knakk/digest":    "Apache-2.0", // in its source
}

// licensesOf returns the licences of a module for an SBOM.
func licensesOf(module string, texts []licenseText) *cyclonedx.Licenses {
	if x := declaredLicenses[module]; x != "" {
		return &cyclonedx.Licenses{{Expression: x}}
	}
	list := cyclonedx.Licenses{}
	for _, id := range licenseIDs(texts) {
		list = append(list, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	if len(list) == 0 { // SPDX has no id for it
		list = append(list, cyclonedx.LicenseChoice{License: &cyclonedx.License{Name: "the text in THIRD-PARTY-LICENSES"}})
	}
	return &list
}

// licenses writes the licences of all parts into one file, as they require.
func (r *release) licenses(path, dir string, names []string) error {
	mods, goVersion, err := modules(dir, names)
	if err != nil {
		return err
	}
	text, err := r.engineNotice()
	if err != nil {
		return err
	}
	add := func(name string, list []licenseText) {
		for _, t := range list {
			text += fmt.Sprintf("\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), name, t.name, t.text)
		}
		if len(list) == 0 { // as old modules that name their licence in the comments of the source
			text += fmt.Sprintf("\n%s\n%s has no licence file: see the comments of its source.\n", strings.Repeat("=", 80), name)
		}
	}
	list, err := licensesOfGo(output("go", "env", "GOROOT"))
	if err != nil {
		return err
	}
	add(goVersion, list)
	all, err := licenseTexts(mods)
	if err != nil {
		return err
	}
	for i, m := range mods {
		add(m.Path+" "+m.Version, all[i])
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// licensesOfGo reads the licence files at the root of Go, without those of its tools.
func licensesOfGo(root string) (list []licenseText, err error) {
	for _, name := range []string{"LICENSE", "PATENTS"} {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		list = append(list, licenseText{name, strings.TrimSpace(string(b))})
	}
	return list, nil
}
