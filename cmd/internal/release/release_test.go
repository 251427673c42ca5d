package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

const testVersion = "v9.8.7-rc.1"

// built runs the program in this checkout once for all tests, and returns its output directory.
var built = sync.OnceValues(func() (string, error) {
	out := filepath.Join(scratch, "dist")
	return out, build("../../..", out)
})

var scratch string // a directory for the run of these tests

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "freshet-release-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// build runs the program in a checkout, for the platform of this machine unless
// FRESHET_TEST_PLATFORMS lists others.
func build(checkout, out string) error {
	engine, err := filepath.Abs("../../../endpoint/local/node_modules/oxigraph/node_bg.wasm")
	if err != nil {
		return err
	}
	deb := ""
	if _, err := exec.LookPath("dpkg-deb"); err == nil {
		deb = runtime.GOARCH
	}
	cmd := exec.Command("go", "run", "-trimpath", "./cmd/internal/release", "-version", testVersion, "-engine", engine, "-out", out,
		"-platforms", cmp.Or(os.Getenv("FRESHET_TEST_PLATFORMS"), runtime.GOOS+"/"+runtime.GOARCH), "-deb", deb, "-rpm", runtime.GOARCH,
		"-image", runtime.GOARCH, "-fast="+strconv.FormatBool(os.Getenv("FRESHET_TEST_PLATFORMS") == ""))
	cmd.Dir = checkout
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if text, err := cmd.CombinedOutput(); err != nil {
		return &exec.Error{Name: string(text), Err: err}
	}
	return nil
}

// dist returns the directory of a release.
func dist(t *testing.T) string {
	t.Helper()
	clitest.NeedEngine(t)
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// one returns the one file of a directory whose name matches.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: %v, %v", pattern, list, err)
	}
	return list[0]
}

// The same source gives the same bytes in another directory, at another time, with another
// umask and without a repository.
func TestLongReproducible(t *testing.T) {
	first := dist(t)
	copied := filepath.Join(t.TempDir(), "elsewhere", "source")
	list, err := exec.Command("git", "-C", "../../..", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skip("the source is no git checkout")
	}
	for _, name := range strings.Fields(string(list)) {
		from, to := filepath.Join("../../..", name), filepath.Join(copied, name)
		b, err := os.ReadFile(from)
		if err != nil {
			continue // deleted and not committed, or a link to a directory
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second := filepath.Join(t.TempDir(), "dist")
	if err := build(copied, second); err != nil {
		t.Fatal(err)
	}
	names := func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if a, b := names(first), names(second); !slices.Equal(a, b) || len(a) < 3 {
		t.Fatalf("the builds are of %q and %q", a, b)
	}
	for _, name := range names(first) {
		a, err := fileSum(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := fileSum(filepath.Join(second, name)); err != nil || a != b {
			t.Errorf("%s differs between the builds: %v", name, err)
		}
	}
}

// The archive works wherever it is unpacked: both programs, the embedded engine, the pages of
// the manual. The checksums are right.
func TestLongArchive(t *testing.T) {
	dir := dist(t)
	sums := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = dir
	if out, err := sums.CombinedOutput(); err != nil || !strings.Contains(string(out), ".tar.gz: OK") {
		t.Errorf("%v\n%s", err, out)
	}
	base := "freshet-" + testVersion + "-" + runtime.GOOS + "-" + runtime.GOARCH
	home := t.TempDir()
	unpack(t, filepath.Join(dir, base+".tar.gz"), home)
	at := filepath.Join(home, base)
	for _, name := range []string{"LICENSE", "README.md", "THIRD-PARTY-LICENSES", "freshet.example.yaml", "completions/freshet.bash",
		"completions/_freshet",
		"completions/freshet.fish", "man/man1/freshet.1", "man/man1/freshet-query-add.1", "man/man1/freshet-bench-study.1"} {
		if i, err := os.Stat(filepath.Join(at, name)); err != nil || i.Size() < 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Neither the checkout nor the cache of the user has an engine for it.
	t.Chdir(home)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("PATH", "/nowhere")
	t.Setenv("FRESHET_ENGINE", "")
	freshet := filepath.Join(at, "freshet")
	for _, x := range [][]string{{"freshet " + testVersion + " (", "version"}, {"Runs refresh policies over traces", "bench", "--help"}} {
		if out, err := exec.Command(freshet, x[1:]...).CombinedOutput(); err != nil || !strings.Contains(string(out), x[0]) {
			t.Errorf("freshet %q: %v\n%s", x[1:], err, out)
		}
	}
	if err := clitest.Start(t, freshet, "sparql", "--listen", "127.0.0.1:0").Stop(); err != nil {
		t.Error(err)
	}
}

func unpack(t *testing.T, archive, to string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name <= last || !filepath.IsLocal(h.Name) || h.ModTime.Unix() != 1700000000 || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%+v after %s", h, last)
		}
		last = h.Name
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, fs.FileMode(h.Mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// The SBOM names each module of the programs, the engine at its pinned version, and the Go
// version. The licences of all of them are there.
func TestLongBOM(t *testing.T) {
	dir := dist(t)
	f, err := os.Open(one(t, dir, "*-"+runtime.GOOS+"-"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(f, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, c := range *bom.Components {
		if c.Type == cyclonedx.ComponentTypeLibrary && (c.Licenses == nil || len(*c.Licenses) == 0) {
			t.Errorf("%s has no licence in the SBOM", c.Name)
		}
		if c.Hashes == nil && c.Name != "std" && !strings.HasPrefix(c.PackageURL, "pkg:cargo/") {
			t.Errorf("%s has no hash in the SBOM", c.Name)
		}
		name := c.Name
		if strings.HasPrefix(c.PackageURL, "pkg:cargo/") { // several versions of a crate may be linked
			name = c.PackageURL
		}
		if parts[name] != "" {
			t.Errorf("%s is there twice", name)
		}
		parts[name] = c.Version
	}
	home := t.TempDir()
	unpack(t, one(t, dir, "*-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz"), home)
	at := one(t, home, "freshet-*")
	licenses, err := os.ReadFile(filepath.Join(at, "THIRD-PARTY-LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, program := range []string{"freshet", "freshet-bench"} {
		out, err := exec.Command("go", "version", "-m", filepath.Join(at, program)).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if w := strings.Fields(line); w[0] == "dep" {
				seen++
				if parts[w[1]] != w[2] {
					t.Errorf("%s contains %s %s, the SBOM says %q", program, w[1], w[2], parts[w[1]])
				}
				if !strings.Contains(string(licenses), w[1]+" "+w[2]) {
					t.Errorf("the licence of %s is missing", w[1])
				}
			}
		}
	}
	for _, want := range []string{"The FreeType Project LICENSE", "tokio 1.", "quick-xml 0.", "Unlicense OR MIT"} {
		if !strings.Contains(string(licenses), want) {
			t.Errorf("the licences have no %q", want)
		}
	}
	if parts["pkg:cargo/tokio@1.52.3"] == "" || parts["pkg:cargo/i_overlay@4.0.7"] == "" {
		t.Errorf("the SBOM lacks crates of the engine: %v", parts)
	}
	t.Chdir("../../..")
	engine, err := engineVersion()
	if err != nil || parts["oxigraph"] != engine || "go"+parts["std"] != runtime.Version() || parts["freshet"] != testVersion || seen < 40 {
		t.Errorf("%d modules, %v, %v", seen, parts, err)
	}
}

func TestDebVersion(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "1.2.3-1", "v1.2.3-rc.1": "1.2.3~rc.1-1",
		"v0.1.0+6255db7a0b1c.dirty": "0.1.0+6255db7a0b1c.dirty-1"} {
		if got := debVersion(version); got != want {
			t.Errorf("%s becomes %s, not %s", version, got, want)
		}
	}
}
