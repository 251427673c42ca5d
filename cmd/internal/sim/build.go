package main

// This file builds the simulated server: the program in the folder world, for WebAssembly,
// with a bbolt that needs no memory map.

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed bbolt
var bbolt embed.FS

//go:embed stub
var stubs embed.FS

// stubbed are packages that the simulation does not need, and that would make the module twice
// as large, with the files that replace them.
var stubbed = map[string]string{"endpoint/local": "local", "store/journal/nats": "nats", "store/journal/postgres": "postgres"}

// An edit replaces text that occurs once in a file of the product.
type edit struct{ file, old, new string }

// needed are the edits without which the server does not run in the simulation.
var needed = []edit{
	// No one looks at pages, whose templates take a second to parse there at each start.
	{"web/ui/routes.go", "	templates, err := parsed()\n	if err != nil {\n		return nil, err\n	}\n",
		"	templates := (&Server{}).templates\n"},
	{"web/problem.go", "errors.Is(err, syscall.ENOSPC) ||", "errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.ELOOP) ||"},
	{"store/errors.go", "{syscall.ENOSPC, ", "{syscall.ENOSPC, syscall.ELOOP, "},
	{"cmd/internal/server/cluster.go", `natsio "github.com/nats-io/nats.go"`, `natsio "github.com/freshet/freshet/store/journal/nats"`},
	// Worlds are short, so that few changes wait at a time for a follower that was away. More than three are sent as one there.
	{"notify/options.go", "l.Fold = cmp.Or(l.Fold, 16)", "l.Fold = cmp.Or(l.Fold, 3)"},
	{"notify/webhook/webhook.go", "foldAbove = 16", "foldAbove = 3"},
	// The network of wasip1 has no hook for addresses. They are checked as text only.
	{"notify/deliver/guard.go", "ControlContext: g.control, ", ""},
}

// build compiles the world into dir with some edits of the product and some more files, by
// path. The product stays as it is. It returns the module's file.
func build(dir string, edits []edit, added map[string]string) (string, error) {
	overlay, err := overlaid(dir, append(slices.Clone(needed), edits...), added)
	if err != nil {
		return "", err
	}
	patched := filepath.Join(dir, "bbolt")
	if err := patch(patched); err != nil {
		return "", fmt.Errorf("patch bbolt: %w", err)
	}
	mod := filepath.Join(dir, "sim.mod")
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return "", err
	}
	text = fmt.Appendf(text, "\nreplace go.etcd.io/bbolt => %s\n", patched)
	if err := os.WriteFile(mod, text, 0o644); err != nil {
		return "", err
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "sim.sum"), sums, 0o644); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "world.wasm")
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-modfile", mod, "-overlay", overlay, "-ldflags", "-s -w", "-o", out,
		"./cmd/internal/sim/world")
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if b, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, b)
	}
	return out, nil
}

// overlaid writes the edited files into dir, and the file for the flag -overlay of go build.
func overlaid(dir string, edits []edit, added map[string]string) (string, error) {
	replace := map[string]string{}
	var wrong error
	for i, e := range edits {
		file, err := filepath.Abs(e.file)
		if err != nil {
			return "", err
		}
		from := file
		if again := replace[file]; again != "" {
			from = again
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			wrong = errors.Join(wrong, fmt.Errorf("%s has the text to edit %d times: %q", e.file, n, e.old))
			continue
		}
		replace[file] = filepath.Join(dir, fmt.Sprintf("edit%d.go", i))
		if err := os.WriteFile(replace[file], []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o644); err != nil {
			return "", err
		}
	}
	if wrong != nil {
		return "", wrong
	}
	added = maps.Clone(added)
	if err := stub(added, replace); err != nil {
		return "", err
	}
	for i, name := range slices.Sorted(maps.Keys(added)) {
		file, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		replace[file] = filepath.Join(dir, fmt.Sprintf("added%d.go", i))
		if err := os.WriteFile(replace[file], []byte(added[name]), 0o644); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o644)
}

// stub removes the files of stubbed packages and adds those that replace them.
func stub(added, replace map[string]string) error {
	for dir, name := range stubbed {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			return err
		}
		for _, f := range files {
			if f, err = filepath.Abs(f); err != nil {
				return err
			}
			replace[f] = ""
		}
		text, err := stubs.ReadFile("stub/" + name + ".go.txt")
		if err != nil {
			return err
		}
		added[dir+"/stub.go"] = string(text)
	}
	for name, dir := range map[string]string{"server": "cmd/internal/server", "world": "cmd/internal/sim/world"} {
		text, err := stubs.ReadFile("stub/" + name + ".go.txt")
		if err != nil {
			return err
		}
		added[dir+"/simulated.go"] = string(text)
	}
	return nil
}

// patch copies bbolt's source and makes it compile for WebAssembly.
func patch(dir string) error {
	b, err := exec.Command("go", "list", "-m", "-json", "go.etcd.io/bbolt").Output()
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(b, &module); err != nil {
		return err
	}
	err = filepath.WalkDir(module.Dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(module.Dir, name)
		if err != nil {
			return err
		}
		switch top := strings.Split(filepath.ToSlash(rel), "/")[0]; {
		case e.IsDir() && (top == "cmd" || top == "tests" || top == "scripts"):
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o755)
		case rel != "go.mod" && filepath.Ext(name) != ".go", strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if base := filepath.Base(name); base == "bolt_unix.go" || base == "mlock_unix.go" {
			text = []byte(strings.Replace(string(text), "//go:build ", "//go:build !wasip1 && ", 1))
		}
		return os.WriteFile(filepath.Join(dir, rel), text, 0o644)
	})
	if err != nil {
		return err
	}
	for from, to := range map[string]string{"bolt_wasip1.go.txt": ".", "common_wasm.go.txt": "internal/common"} {
		text, err := bbolt.ReadFile("bbolt/" + from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, to, strings.TrimSuffix(from, ".txt")), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
