package main

import (
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A composed is the part of a compose file that Freshet's uses.
type composed struct {
	Services map[string]struct {
		Image       string
		Build       struct{ Context, Dockerfile string }
		Command     []string
		Environment map[string]string
		Ports       []string
		Volumes     []string
		Healthcheck struct {
			Test              []string
			Interval, Timeout string
			Retries           int
			StartPeriod       string `yaml:"start_period"`
		}
		Restart     string
		ReadOnly    bool `yaml:"read_only"`
		Tmpfs       []string
		CapDrop     []string `yaml:"cap_drop"`
		SecurityOpt []string `yaml:"security_opt"`
	}
	Volumes map[string]struct{}
}

var (
	copied     = regexp.MustCompile(`(?m)^COPY ((?:[^-\s]\S* )+)\S+$`)
	substitute = regexp.MustCompile(`\$\{(\w+):[-?][^}]*\}`)
)

// What the compose file and the Containerfile name exists, and both agree. The server runs
// with the command and the environment of the compose file, and passes its health check.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("dist/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file composed
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	s := file.Services["freshet"]
	if _, named := file.Volumes["data"]; !named || len(file.Services) != 1 || !s.ReadOnly || s.Restart == "" {
		t.Fatalf("the compose file is\n%s", text)
	}
	root := filepath.Join("dist", s.Build.Context)
	image, err := os.ReadFile(filepath.Join(root, s.Build.Dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	sources := copied.FindAllStringSubmatch(string(image), -1)
	for _, m := range sources {
		for _, name := range strings.Fields(m[1]) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
		}
	}
	for _, line := range []string{"EXPOSE 8080", "VOLUME /data", "ENV FRESHET_DATA=/data", `ENTRYPOINT ["` + s.Healthcheck.Test[1] + `"]`,
		`CMD ["` + strings.Join(s.Healthcheck.Test[1:], `", "`) + `"]`} {
		if !strings.Contains(string(image), line) {
			t.Errorf("the Containerfile has no %s", line)
		}
	}
	listen := s.Environment["FRESHET_LISTEN"]
	if len(sources) != 3 || !slices.Equal(s.Ports, []string{"127.0.0.1:8080:8080"}) || !strings.HasSuffix(listen, ":8080") ||
		!slices.Equal(s.Volumes, []string{"data:/data"}) {
		t.Errorf("copied %q, ports %q, listens on %q, volumes %q", sources, s.Ports, listen, s.Volumes)
	}
	for _, name := range []string{"FRESHET_CONTACT", "FRESHET_PUBLIC_URL", "FRESHET_PROXIES_NETWORKS"} {
		if got, want := s.Environment[name], "${"+name+":-}"; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	// Without a token the server refuses to listen there.
	env := map[string]string{}
	for name, value := range s.Environment {
		env[name] = substitute.ReplaceAllStringFunc(value, func(v string) string {
			return map[string]string{"FRESHET_ADMIN_TOKEN": "a-secret-of-the-test"}[substitute.FindStringSubmatch(v)[1]]
		})
	}
	if code, _, stderr := runCLI(t, env, "", "config", "check"); code != cli.ExitOK {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	args := s.Command
	p := startWith(t, env, map[string]string{"FRESHET_LISTEN": "127.0.0.1:0", "FRESHET_DATA": t.TempDir()}, args)
	if a, err := http.Get(p.Url + "/v1/queries"); err != nil || a.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %v, %v", a, err)
	}
	if path.Base(s.Healthcheck.Test[1]) != "freshet" || s.Healthcheck.Test[0] != "CMD" {
		t.Fatalf("the health check is %q", s.Healthcheck.Test)
	}
	clitest.Eventually(t, "a server that is healthy", func() bool {
		code, _, _ := runCLI(t, map[string]string{"FRESHET_SERVER": p.Url}, "", s.Healthcheck.Test[2:]...)
		return code == cli.ExitOK
	})
	delete(env, "FRESHET_ADMIN_TOKEN")
	if code, _, stderr := runCLI(t, env, "", append(args, "--data", t.TempDir())...); code != cli.ExitUsage ||
		!strings.Contains(stderr, "token") {
		t.Errorf("without a token: exit code %d, %s", code, stderr)
	}
}

// startWith starts the program with variables, later ones overriding earlier ones.
func startWith(t *testing.T, env, override map[string]string, args []string) *clitest.Process {
	t.Helper()
	for _, list := range []map[string]string{env, override} {
		for name, value := range list {
			t.Setenv(name, value)
		}
	}
	return clitest.Start(t, binary(t), args...)
}
