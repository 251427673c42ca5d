package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EngineEnv is the environment variable that names the engine file.
const EngineEnv = "FRESHET_ENGINE"

// inCheckout is where `make deps` puts the engine, relative to the root of the
// checkout.
var inCheckout = filepath.Join("endpoint", "local", "node_modules", "oxigraph", "node_bg.wasm")

// FindEngine returns the path of the engine file. If the user names a path, by
// explicit (a flag) or FRESHET_ENGINE, only that is tried. Otherwise FindEngine
// looks beside the running binary, where packages put it (share/freshet beside the
// directory bin), in the checkout (upwards from the working
// directory and from the binary), and in the user's cache directory. If there
// is none, the error wraps ErrNoEngine and lists every path.
func FindEngine(explicit string) (string, error) {
	if explicit != "" {
		return firstFile([]string{explicit})
	}
	if named := os.Getenv(EngineEnv); named != "" {
		return firstFile([]string{named})
	}
	return firstFile(places())
}

func places() []string {
	var list []string
	executable, err := os.Executable()
	if err == nil {
		if real, err := filepath.EvalSymlinks(executable); err == nil {
			executable = real
		}
		beside := filepath.Dir(executable)
		list = append(list, filepath.Join(beside, "node_bg.wasm"), filepath.Join(beside, "oxigraph.wasm"),
			filepath.Join(filepath.Dir(beside), "share", "freshet", "oxigraph.wasm"))
	}
	if cwd, err := os.Getwd(); err == nil {
		list = append(list, upwards(cwd)...)
	}
	if executable != "" {
		list = append(list, upwards(filepath.Dir(executable))...)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "freshet")
		list = append(list, filepath.Join(dir, "node_bg.wasm"), filepath.Join(dir, "oxigraph.wasm"))
	}
	return list
}

// upwards lists the engine's path in a checkout rooted at dir or any of its
// parents.
func upwards(dir string) []string {
	var list []string
	for {
		list = append(list, filepath.Join(dir, inCheckout))
		parent := filepath.Dir(dir)
		if parent == dir {
			return list
		}
		dir = parent
	}
}

func firstFile(list []string) (string, error) {
	seen := map[string]bool{}
	var looked []string
	for _, path := range list {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
		if !seen[path] {
			seen[path] = true
			looked = append(looked, path)
		}
	}
	return "", fmt.Errorf("%w: run \"make deps\" in the checkout, or name the file by --engine or %s; looked at:\n  %s",
		ErrNoEngine, EngineEnv, strings.Join(looked, "\n  "))
}
