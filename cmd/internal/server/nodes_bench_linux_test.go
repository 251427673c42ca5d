package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
)

// A town answers every query with ten rows. When it is busy, one answer in a hundred has another
// row than the answers before.
type town struct {
	asked atomic.Int64
	busy  atomic.Bool
}

func (s *town) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := s.asked.Add(1)
	var rows []string
	for row := range 10 {
		label := fmt.Sprintf("item number %d", row)
		if row == 0 && n%100 == 0 && s.busy.Load() {
			label = fmt.Sprint("changed at ", n)
		}
		rows = append(rows, fmt.Sprintf(`{"item":{"type":"uri","value":"http://example.org/item/%d"},"label":{"type":"literal",`+
			`"xml:lang":"en","value":%q}}`, row, label))
	}
	w.Header().Set("Content-Type", "application/sparql-results+json")
	fmt.Fprintf(w, `{"head":{"vars":["item","label"]},"results":{"bindings":[%s]}}`, strings.Join(rows, ","))
}

// await waits until the endpoint was asked so many times.
func (s *town) await(n int64) {
	for s.asked.Load() < n {
		time.Sleep(time.Millisecond)
	}
}

// fill makes a store with queries that have results, and whose endpoint is paused.
func (s *town) fill(b *testing.B, dir string, e registry.Endpoint, queries int) {
	b.Helper()
	e.Slot, e.Budget, e.Concurrency, e.MinGap = "never", registry.Duration(time.Hour), 8, 0
	r := startWith(b, dir, e)
	r.registerAll(b, queries)
	for _, act := range []string{"tick", "pause"} {
		if err := r.Call(b.Context(), "POST", "/v1/endpoints/city/"+act, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	if n := s.asked.Load(); n != int64(queries) {
		b.Fatalf("%d of %d queries were executed", n, queries)
	}
	r.end(b)
}

// A process is a server of the benchmark.
type process struct{ *clitest.Process }

func (p process) read(b *testing.B, name string) string {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Cmd.Process.Pid, name))
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// used returns the processor time of the process.
func (p process) used(b *testing.B) time.Duration {
	b.Helper()
	stat := p.read(b, "stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * (time.Second / 100) // USER_HZ
}

// memory returns the resident memory in MB, and the part of it that is not pages of files.
func (p process) memory(b *testing.B) (all, own float64) {
	b.Helper()
	for line := range strings.Lines(p.read(b, "status")) {
		var kB float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f", &kB); n == 1 {
			all = kB / 1000
		}
		if n, _ := fmt.Sscanf(line, "RssAnon: %f", &kB); n == 1 {
			own = kB / 1000
		}
	}
	return all, own
}

// startProcesses starts one server, or the nodes of a cluster, on copies of a store.
func startProcesses(b *testing.B, filled string, e registry.Endpoint, nodes int) (list []process) {
	b.Helper()
	dir, bin := b.TempDir(), clitest.Build(b, "freshet")
	endpoint, err := json.Marshal(e)
	if err != nil {
		b.Fatal(err)
	}
	secret := filepath.Join(dir, "token")
	if err := os.WriteFile(secret, []byte("shared by the three nodes\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	peers := map[string]string{}
	for i := range nodes {
		peers[fmt.Sprint("n", i)] = clitest.FreeAddr(b)
	}
	members, err := json.Marshal(peers)
	if err != nil {
		b.Fatal(err)
	}
	list = make([]process, nodes)
	var starting sync.WaitGroup
	for i := range nodes {
		name := fmt.Sprint("n", i)
		data := filepath.Join(dir, name)
		if err := os.Mkdir(data, 0o700); err != nil {
			b.Fatal(err)
		}
		copyFile(b, filepath.Join(filled, store.File), filepath.Join(data, store.File))
		if i == 0 && nodes > 1 { // a store that has not run in its place cannot begin a journal
			alone := clitest.Serve(b, bin, clitest.FreeAddr(b), data, fmt.Sprintf("endpoints: [%s]\n", endpoint))
			if err := alone.Stop(); err != nil {
				b.Fatal(err)
			}
			filled = data
		}
		text := fmt.Sprintf("listen: %s\ndata: %s\nendpoints: [%s]\n", clitest.FreeAddr(b), data, endpoint)
		if nodes > 1 {
			text += fmt.Sprintf("cluster: {name: bench, node: %s, listen: %q, peers: %s, token_file: %s}\n", name, peers[name], members, secret)
		}
		config := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		starting.Go(func() { list[i] = process{clitest.Start(b, bin, "serve", "--config", config)} })
	}
	starting.Wait()
	if b.Failed() {
		b.FailNow()
	}
	for _, p := range list {
		await(b, "a ready server", func() error {
			answer, err := http.Get(p.Url + "/readyz")
			if err == nil {
				if answer.Body.Close(); answer.StatusCode != http.StatusOK {
					err = fmt.Errorf("%s", answer.Status)
				}
			}
			return err
		})
	}
	return list
}

func copyFile(b *testing.B, from, to string) {
	b.Helper()
	in, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err == nil {
		_, err = io.Copy(out, in)
	}
	if err != nil {
		b.Fatal(err)
	}
	if err := out.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkNodes measures the processes of a cluster of three nodes, and of one server without a
// cluster, on the same store: their memory, and their processor time while nothing runs, and per
// execution while about 100 queries run in a second, of which one has changed. Each query has a
// result of ten rows. owner is the node that asks the endpoint. own-MB is without pages of files,
// which the system takes back when it needs memory. Run it with -benchtime 3000x.
func BenchmarkNodes(b *testing.B) {
	for _, queries := range []int{10_000, 100_000} {
		s := new(town)
		ep := httptest.NewServer(s)
		b.Cleanup(ep.Close)
		e := registry.Endpoint{Name: "city", URL: ep.URL, Slot: "@every 1s", Budget: registry.Duration(time.Second), Policy: "rr",
			Merge: "off", MinGap: registry.Duration(8500 * time.Microsecond)}.WithDefaults()
		filled := b.TempDir()
		for _, nodes := range []int{1, 3} {
			b.Run(fmt.Sprintf("queries=%d/nodes=%d", queries, nodes), func(b *testing.B) {
				if s.busy.Store(false); s.asked.Load() == 0 {
					s.fill(b, filled, e, queries)
				}
				list := startProcesses(b, filled, e, nodes)
				s.measure(b, list)
				if file, err := os.Stat(filepath.Join(filled, store.File)); err == nil {
					b.ReportMetric(float64(file.Size())/1e6, "MB/file")
				}
				for _, p := range list {
					p.Kill()
				}
			})
		}
	}
}

func (s *town) measure(b *testing.B, list []process) {
	const idle = 10 * time.Second
	call := func(method, path string, out any) error {
		r, err := http.NewRequest(method, list[0].Url+path, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode >= 300 {
			return fmt.Errorf("%s", answer.Status)
		}
		if out == nil {
			return nil
		}
		return json.NewDecoder(answer.Body).Decode(out)
	}
	all := func() (used []time.Duration) {
		for _, p := range list {
			used = append(used, p.used(b))
		}
		return used
	}
	time.Sleep(2 * idle) // until the endpoint has its owner, and garbage is collected
	began, before := time.Now(), all()
	time.Sleep(idle)
	quiet, rest := time.Since(began), all()
	s.busy.Store(true)
	if err := call("POST", "/v1/endpoints/city/resume", nil); err != nil {
		b.Fatal(err)
	}
	s.await(s.asked.Load() + 100)
	var owner struct{ Node string }
	await(b, "an owner", func() error {
		err := call("GET", "/v1/endpoints/city", &owner)
		if err == nil && owner.Node == "" && len(list) > 1 {
			err = fmt.Errorf("none yet")
		}
		return err
	})
	first, began, start := s.asked.Load(), time.Now(), all()
	for n := first; b.Loop(); {
		n++
		s.await(n)
	}
	askedBy := owner.Node
	if err := call("GET", "/v1/endpoints/city", &owner); err != nil || owner.Node != askedBy {
		b.Fatalf("the endpoint was asked by %s and then by %s (%v)", askedBy, owner.Node, err)
	}
	executions, busy, end := float64(s.asked.Load()-first), time.Since(began), all()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(executions/busy.Seconds(), "executions/s")
	var used, memory, own, idling [2]float64 // of the owner, and of the others
	for i, p := range list {
		role, count := 0, 1.0
		if len(list) > 1 && fmt.Sprint("n", i) != owner.Node {
			role, count = 1, float64(len(list)-1)
		}
		resident, anonymous := p.memory(b)
		memory[role] += resident / count
		own[role] += anonymous / count
		idling[role] += (rest[i] - before[i]).Seconds() * 1e3 / quiet.Seconds() / count
		used[role] += (end[i] - start[i]).Seconds() * 1e6 / executions / count
	}
	for role, name := range []string{"owner", "other"}[:min(len(list), 2)] {
		b.ReportMetric(memory[role], "MB/"+name)
		b.ReportMetric(own[role], "own-MB/"+name)
		b.ReportMetric(idling[role], "idle-cpu-ms/s/"+name)
		b.ReportMetric(used[role], "cpu-us/execution/"+name)
	}
}
