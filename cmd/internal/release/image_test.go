package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// layout reads the files of a tar archive.
func layout(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(in); err != nil || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// The image is an OCI layout whose digests are right. What it holds starts as its user.
func TestLongImage(t *testing.T) {
	f, err := os.Open(one(t, dist(t), "freshet-*.oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := layout(t, f)
	for name, b := range files {
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && sum != fmt.Sprintf("%x", sha256.Sum256(b)) {
			t.Errorf("%s has another digest", name)
		}
	}
	read := func(digest string, v any) {
		t.Helper()
		if err := json.Unmarshal(files["blobs/"+strings.Replace(digest, ":", "/", 1)], v); err != nil {
			t.Fatalf("%s: %v", digest, err)
		}
	}
	var index struct {
		Manifests []struct {
			Digest   string
			Platform struct{ Architecture, OS string }
		}
	}
	var manifest struct {
		Config struct{ Digest string }
		Layers []struct {
			Digest string
			Size   int
		}
	}
	var config struct {
		Architecture string
		Config       struct {
			User            string
			Entrypoint, Cmd []string
			Env             []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 ||
		index.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Fatalf("%v %s", err, files["index.json"])
	}
	read(index.Manifests[0].Digest, &manifest)
	read(manifest.Config.Digest, &config)
	if config.Architecture != runtime.GOARCH || config.Config.User != "65532:65532" || len(manifest.Layers) != 1 ||
		len(config.RootFS.DiffIDs) != 1 {
		t.Fatalf("%+v %+v", config, manifest)
	}
	var old []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &old); err != nil || len(old) != 1 || files[old[0].Config] == nil ||
		files[old[0].Layers[0]] == nil || old[0].RepoTags[0] != "freshet:"+testVersion {
		t.Errorf("%v %+v", err, old)
	}
	if _, err := exec.LookPath("chroot"); err != nil || os.Getuid() != 0 || runtime.GOOS != "linux" {
		clitest.SkipPart(t, "root", "running the image's program needs chroot and its right")
	}
	root := t.TempDir()
	unpacked := exec.Command("tar", "xzpf", "-", "-C", root)
	unpacked.Stdin = bytes.NewReader(files["blobs/"+strings.Replace(manifest.Layers[0].Digest, ":", "/", 1)])
	if out, err := unpacked.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil ||
		bytes.Count(b, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("%v: %d roots", err, bytes.Count(b, []byte("BEGIN CERTIFICATE")))
	}
	enter := []string{"--userspec=" + config.Config.User, root, config.Config.Entrypoint[0]}
	out, err := exec.Command("chroot", append(enter, "version")...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), testVersion) {
		t.Fatalf("%v %s", err, out)
	}
	for _, e := range config.Config.Env {
		if name, value, _ := strings.Cut(e, "="); name != "PATH" { // which finds chroot
			t.Setenv(name, value)
		}
	}
	t.Setenv("FRESHET_LISTEN", "127.0.0.1:0")
	p := clitest.Start(t, "chroot", append(enter, config.Config.Cmd...)...)
	clitest.Eventually(t, "the server is ready", func() bool { // it listens before its database is open
		a, err := http.Get(p.Url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		return a.StatusCode == http.StatusOK
	})
	if s, err := os.Stat(filepath.Join(root, "data", "freshet.db")); err != nil || s.Size() == 0 {
		t.Errorf("the data are not in /data: %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// The script installs what has the right checksum, and nothing else.
func TestLongInstallScript(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil || runtime.GOOS == "windows" {
		clitest.SkipPart(t, "curl", "apt-get install curl")
	}
	dir := dist(t)
	spoil := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := os.ReadFile(filepath.Join(dir, filepath.Base(r.URL.Path)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if spoil != "" && strings.HasSuffix(r.URL.Path, spoil) {
			b = append(b, 0)
		}
		_, _ = w.Write(b)
	}))
	defer s.Close()
	install := func(release, to string) (string, error) {
		cmd := exec.Command("sh", filepath.Join(dir, "install.sh"), to)
		cmd.Env = append(os.Environ(), "FRESHET_RELEASE="+release)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, from := range []string{s.URL, dir} {
		to := filepath.Join(t.TempDir(), "bin")
		if out, err := install(from, to); err != nil || !strings.Contains(out, testVersion) {
			t.Errorf("from %s: %v\n%s", from, err, out)
		}
		if out, err := exec.Command(filepath.Join(to, "freshet-bench"), "--help").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	spoil = ".tar.gz"
	for _, from := range []string{s.URL, s.URL + "/nowhere/", "/nowhere"} {
		to := filepath.Join(t.TempDir(), "bin")
		out, err := install(from, to)
		if err == nil || from == s.URL && !strings.Contains(out, "checksum") {
			t.Errorf("a bad release from %s: %v\n%s", from, err, out)
		}
		if _, err := os.Stat(to); !os.IsNotExist(err) {
			t.Errorf("something was installed: %v", err)
		}
	}
}
