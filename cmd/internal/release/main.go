// Command release builds what users install: archives of the programs for each platform,
// packages of Debian and of RPM, container images, a list of their parts (SBOM) and checksums. The same source gives the
// same bytes on any machine and at any time. It runs at the root of a checkout.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// platforms are those of a release.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

// A release is what one run builds.
type release struct {
	version string    // "v1.2.3"
	time    time.Time // of every file
	engine  string    // the file of the embedded engine
	out     string    // directory
	work    string    // directory for what goes into archives
	files   []file    // of every platform
	fast    bool      // compress as little as possible
}

// A file goes into an archive or a package.
type file struct {
	name string // in the archive, with slashes
	from string // on disk
	mode os.FileMode
}

func main() {
	var r release
	var list, deb, rpm, images string
	pack := flag.Bool("pack", false, "only put the compressed engine where builds with the tag engine look for it")
	flag.StringVar(&r.version, "version", "", "version, such as v1.2.3 (default: the tag, else the newest of the changelog with the revision)")
	flag.StringVar(&r.engine, "engine", "endpoint/local/node_modules/oxigraph/node_bg.wasm", "file of the embedded engine")
	flag.StringVar(&r.out, "out", "dist", "directory for what is built; what it holds is removed")
	flag.StringVar(&list, "platforms", platforms, "platforms to make archives for; \"\" for none")
	flag.StringVar(&deb, "deb", "amd64,arm64", "architectures to make Debian packages for; \"\" for none")
	flag.StringVar(&rpm, "rpm", "amd64,arm64", "architectures to make RPM packages for; \"\" for none")
	flag.BoolVar(&r.fast, "fast", false, "compress as little as possible, which takes a tenth of the time")
	flag.StringVar(&images, "image", "amd64,arm64", "architectures to make container images for; \"\" for none")
	flag.Parse()
	if *pack {
		if err := r.pack(); err != nil {
			fmt.Fprintln(os.Stderr, "release:", err)
			os.Exit(1)
		}
		return
	}
	if err := r.run(split(list), split(deb), split(rpm), split(images)); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// packed is the file that programs with the tag engine embed.
const packed = "endpoint/local/oxigraph.wasm.zst"

// pack compresses the engine.
func (r *release) pack() error {
	b, err := os.ReadFile(r.engine)
	if err != nil {
		return fmt.Errorf("the embedded engine is missing: run \"make deps\", or name the file by -engine: %w", err)
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	return os.WriteFile(packed, z.EncodeAll(b, nil), 0o644)
}

func (r *release) run(platforms, debs, rpms, images []string) (err error) {
	if err := r.pack(); err != nil {
		return err
	}
	if r.time, err = sourceTime(); err != nil {
		return err
	}
	r.version = cmp.Or(r.version, sourceVersion())
	if r.work, err = os.MkdirTemp("", "freshet-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := r.documents(); err != nil {
		return err
	}
	for _, p := range platforms {
		if err := r.archive(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	for _, arch := range debs {
		if err := r.debs(arch); err != nil {
			return fmt.Errorf("package of Debian for %s: %w", arch, err)
		}
	}
	for _, arch := range rpms {
		if err := r.rpms(arch); err != nil {
			return fmt.Errorf("RPM package for %s: %w", arch, err)
		}
	}
	for _, arch := range images {
		if err := r.image(arch); err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
	}
	if err := r.copy("cmd/freshet/dist/install.sh", "cmd/freshet/dist/compose.yaml"); err != nil {
		return err
	}
	return r.sums()
}

// copy puts files beside what is built.
func (r *release) copy(names ...string) error {
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(r.out, filepath.Base(name)), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sourceTime is SOURCE_DATE_EPOCH, else the time of the commit.
func sourceTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		text = output("git", "log", "-1", "--format=%ct")
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("the time of the source is unknown: build in a git checkout, or set SOURCE_DATE_EPOCH to " +
			"its time in seconds since 1970")
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// sourceVersion is the tag of the commit, else the newest version of the changelog and the
// revision, as "freshet version" reports for builds without a version.
func sourceVersion() string {
	version := cli.Version()
	revision := output("git", "rev-parse", "--short=12", "HEAD")
	if revision != "" {
		version += "+" + revision
	}
	if output("git", "status", "--porcelain") != "" {
		return version + ".dirty"
	}
	return cmp.Or(output("git", "describe", "--tags", "--exact-match", "--match", "v[0-9]*"), version)
}

// output returns what a command prints, "" if it fails.
func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// command runs a command and shows what it prints if it fails.
func command(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// programs builds the programs for a platform once and returns their directory and names.
func (r *release) programs(platform string) (dir string, names []string, err error) {
	system, arch, _ := strings.Cut(platform, "/")
	dir = filepath.Join(r.work, system+"-"+arch)
	names = []string{"freshet", "freshet-bench"}
	if system == "windows" {
		names = []string{"freshet.exe", "freshet-bench.exe"}
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, names, nil
	}
	fmt.Fprintln(os.Stderr, "building for", platform)
	err = command([]string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0"},
		"go", "build", "-tags", "engine", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+r.version, "-o", dir+"/",
		"./cmd/freshet", "./cmd/freshet-bench")
	return dir, names, err
}

// documents makes the files that are the same on every platform.
func (r *release) documents() error {
	host := runtime.GOOS + "/" + runtime.GOARCH
	dir, names, err := r.programs(host)
	if err != nil {
		return err
	}
	made := filepath.Join(r.work, "made")
	epoch := []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())}
	// The second program replaces the page of "freshet bench", which only starts it.
	for _, name := range names {
		if err := command(epoch, filepath.Join(dir, name), "man", filepath.Join(made, "man")); err != nil {
			return err
		}
	}
	pages, err := filepath.Glob(filepath.Join(made, "man", "*.1"))
	if err != nil {
		return err
	}
	for _, p := range pages {
		r.files = append(r.files, file{"man/man1/" + filepath.Base(p), p, 0o644})
	}
	for _, c := range []struct{ shell, name string }{{"bash", "freshet.bash"}, {"zsh", "_freshet"}, {"fish", "freshet.fish"},
		{"powershell", "freshet.ps1"}} {
		script, err := exec.Command(filepath.Join(dir, names[0]), "completion", c.shell).Output()
		if err != nil {
			return fmt.Errorf("completion for %s: %w", c.shell, err)
		}
		path := filepath.Join(made, c.name)
		if err := os.WriteFile(path, script, 0o644); err != nil {
			return err
		}
		r.files = append(r.files, file{"completions/" + c.name, path, 0o644})
	}
	licenses := filepath.Join(made, "THIRD-PARTY-LICENSES")
	if err := r.licenses(licenses, dir, names); err != nil {
		return err
	}
	r.files = append(r.files, file{"THIRD-PARTY-LICENSES", licenses, 0o644})
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "cmd/freshet/dist/freshet.example.yaml",
		"cmd/freshet/dist/freshet.service",
		"cmd/freshet/dist/freshet.rules.yml", "cmd/freshet/dist/freshet.dashboard.json", "cmd/freshet/dist/freshet.results.dashboard.json"} {
		r.files = append(r.files, file{filepath.Base(name), name, 0o644})
	}
	return nil
}
