package local

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// EngineEnv is the environment variable that names the engine file.
const EngineEnv = "FRESHET_ENGINE"

// inCheckout is where `make deps` puts the engine, relative to the root of the
// checkout.
var inCheckout = filepath.Join("endpoint", "local", "node_modules", "oxigraph", "node_bg.wasm")

// FindEngine returns the path of the engine file. If the user names a path, by
// explicit (a flag) or FRESHET_ENGINE, only that is tried. Otherwise the path is "" if
// the program holds the engine. Else FindEngine looks in the checkout (upwards from the
// working directory and from the binary). If there is none, the error wraps ErrNoEngine.
func FindEngine(explicit string) (string, error) {
	if explicit != "" {
		return firstFile([]string{explicit})
	}
	if named := os.Getenv(EngineEnv); named != "" {
		return firstFile([]string{named})
	}
	if Packed != nil {
		return "", nil
	}
	return firstFile(places())
}

func places() (list []string) {
	if cwd, err := os.Getwd(); err == nil {
		list = append(list, upwards(cwd)...)
	}
	if executable, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(executable); err == nil {
			executable = real
		}
		list = append(list, upwards(filepath.Dir(executable))...)
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
	for _, path := range list {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	if len(list) == 1 {
		return "", fmt.Errorf("%w at %s", ErrNoEngine, list[0])
	}
	return "", fmt.Errorf("%w: this program was built without it, as \"go install\" does; install a package of a release, or run "+
		"\"make build\" in a checkout, or name the file node_bg.wasm of the npm package oxigraph by --engine or %s", ErrNoEngine, EngineEnv)
}

// readEngine returns the engine of a file, or for "" the one that the program holds.
func readEngine(path string) ([]byte, error) {
	if path != "" {
		return os.ReadFile(path)
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer unpack.Close()
	return unpack.DecodeAll(Packed, nil)
}
