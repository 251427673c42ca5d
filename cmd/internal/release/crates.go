package main

// This file names the Rust crates in the embedded engine.

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// engineLicense is the licence of the engine itself.
const engineLicense = "MIT OR Apache-2.0"

// A crate is a Rust library in the engine, with its licence as an SPDX expression.
type crate struct{ name, version, license string }

// crateLicenses are the licences that crates declare, as SPDX expressions. All others in the
// engine are "MIT OR Apache-2.0".
var crateLicenses = map[string]string{
	"aho-corasick": "Unlicense OR MIT", "memchr": "Unlicense OR MIT", "tinyvec": "Zlib OR Apache-2.0 OR MIT",
	"dashmap": "MIT", "geographiclib-rs": "MIT", "i_key_sort": "MIT", "i_overlay": "MIT", "i_shape": "MIT", "i_tree": "MIT",
	"oxilangtag": "MIT", "quick-xml": "MIT", "tokio": "MIT",
}

// dualCrates are those known to be "MIT OR Apache-2.0".
var dualCrates = strings.Fields(`console_error_panic_hook crossbeam-epoch dlmalloc geo geo-types geojson hashbrown itoa js-sys
	json-event-parser once_cell oxiri parking_lot_core rand rayon rayon-core regex regex-automata regex-syntax robust rstar serde
	serde_core serde_json wasm-bindgen wkt`)

// A cratePath is in the messages of a crate's panics: the path of one of its sources.
var cratePath = regexp.MustCompile(`/([A-Za-z0-9_-]+?)-(\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.-]+)?)/src/`)

// crates lists the crates that an engine names, sorted. Crates without a panic leave no name.
func crates(engine string) ([]crate, error) {
	b, err := os.ReadFile(engine)
	if err != nil {
		return nil, err
	}
	var list []crate
	for _, m := range cratePath.FindAllSubmatch(b, -1) {
		c := crate{name: string(m[1]), version: string(m[2])}
		if c.license = crateLicenses[c.name]; c.license == "" && slices.Contains(dualCrates, c.name) {
			c.license = engineLicense
		}
		if c.license == "" {
			return nil, fmt.Errorf("%s names the crate %s %s: add its licence to crates.go", engine, c.name, c.version)
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b crate) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.version, b.version)) })
	return slices.Compact(list), nil
}

// engineNotice names the engine and its crates with their licences.
func (r *release) engineNotice() (string, error) {
	version, err := engineVersion()
	if err != nil {
		return "", err
	}
	list, err := crates(r.engine)
	var b strings.Builder
	fmt.Fprintf(&b, "The programs contain the parts below. Their licences follow.\n\n"+
		"oxigraph %s, the SPARQL engine in the programs: %s, at your choice.\nThe text of Apache-2.0 is in the file LICENSE.\n\n"+
		"The engine contains the standard library of Rust (%s) and at least these crates, which its\n"+
		"messages name. Their licences are SPDX expressions; the texts and the names of the authors are in the crates.\n\n",
		version, engineLicense, engineLicense)
	for _, c := range list {
		fmt.Fprintf(&b, "  %s %s: %s\n", c.name, c.version, c.license)
	}
	return b.String(), err
}
