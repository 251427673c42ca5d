package main

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/freshet/freshet/"

// mayImport lists which packages of this module each package may import, together with the
// packages below them. A package without an entry has the entry of the closest package above it.
// Packages below an entry's package may import that package and each other. All helpers of
// tests may import endpoint/loopbacktest.
var mayImport = map[string][]string{
	"diff":      {},
	"registry":  {"diff"},
	"scheduler": {"diff", "registry", "endpoint/merge"},
	// Policies do not know the planner or the loop.
	"scheduler/policy": {"diff", "registry", "scheduler/update", "scheduler/wic"},
	"scheduler/hybrid": {"diff", "registry", "scheduler/policy", "scheduler/internal"},
	// The plan knows policies only by their interface, and does not know the loop.
	"scheduler/plan": {"diff", "registry", "scheduler/policy", "scheduler/rounds", "scheduler/internal", "scheduler/cohort",
		"scheduler/proof"},
	"scheduler/cohort": {"registry"},
	// What is proved follows from events and positions alone.
	"scheduler/proof": {"registry", "scheduler/internal"},
	"endpoint":        {"diff", "registry"},
	// The formats of answers are pure, and know neither queries nor settings.
	"endpoint/formats": {"diff"},
	// Merging is a matter of texts and results. It sends nothing.
	"endpoint/merge": {"diff", "registry"},
	// Packs are data. They ask nothing.
	"endpoint/pack": {"diff", "registry"},
	"notify":        {"diff", "registry"},
	"store":         {"diff", "registry", "scheduler"},
	// A replica runs transactions that it is given, and applies commands of which it knows two methods.
	"store/replica":  {"registry", "store/journal", "store/internal"},
	"store/internal": {},
	// A journal moves bytes. It does not know what they mean.
	"store/journal": {},
	"bench":         {"diff", "registry", "scheduler"},
	"web":           {"diff", "registry", "scheduler", "endpoint/pack"},
	// Resources are data, for the server and for clients.
	"web/api": {"diff", "registry", "scheduler"},
	"cmd":     {"diff", "registry", "scheduler", "endpoint", "notify", "store", "bench", "web"},
}

// mustNotLink lists what a package must not link, directly or indirectly.
var mustNotLink = map[string][]string{
	"diff":             {"net", "net/http", "os/exec"},
	"registry":         {"net/http", "os/exec"},
	"scheduler":        {"net/http", "os/exec"},
	"endpoint/formats": {"net", "net/http", "os/exec"},
	"endpoint/pack":    {"net/http", "os/exec"},
	"store":            {"net/http", "os/exec", "github.com/prometheus/client_golang/prometheus"},
	// The interface does not link the engines.
	"store/journal": {"net", "net/http", "os/exec"},
}

// A listedPackage is the output of go list for a package.
type listedPackage struct {
	ImportPath    string
	Imports, Deps []string
}

func TestImportTable(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"...")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for d := json.NewDecoder(out); ; {
		var p listedPackage
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		for _, bad := range violations(p) {
			t.Errorf("%s must not import %s", p.ImportPath, bad)
		}
	}
	if err := cmd.Wait(); err != nil || seen < len(mayImport)-1 {
		t.Fatalf("go list showed %d packages: %v", seen, err)
	}
}

// violations lists the forbidden imports and links of a package.
func violations(p listedPackage) (bad []string) {
	pkg := strings.TrimPrefix(p.ImportPath, module)
	room := pkg
	for mayImport[room] == nil && strings.Contains(room, "/") {
		room = path.Dir(room)
	}
	for _, i := range p.Imports {
		to, ours := strings.CutPrefix(i, module)
		below := func(of string) bool { return to == of || strings.HasPrefix(to, of+"/") }
		if ours && to != "endpoint/loopbacktest" && !below(room) && !slices.ContainsFunc(mayImport[room], below) {
			bad = append(bad, i)
		}
	}
	for _, i := range mustNotLink[pkg] {
		if slices.Contains(p.Deps, i) {
			bad = append(bad, i)
		}
	}
	return bad
}

func TestImportTableFindsViolations(t *testing.T) {
	for _, c := range []struct {
		pkg           string
		imports, deps []string
		bad           []string
	}{
		{"diff", []string{"fmt", module + "registry", module + "diff/sub"}, nil, []string{module + "registry"}},
		{"notify/atom", []string{module + "notify", module + "notify/deliver", module + "registry/sparql"}, nil, nil},
		{"notify/atom", []string{module + "notifyother", module + "store"}, nil, []string{module + "notifyother", module + "store"}},
		{"store", []string{module + "web", module + "notify/deliver"}, nil, []string{module + "web", module + "notify/deliver"}},
		{"store", []string{"go.etcd.io/bbolt"}, []string{"fmt", "net/http"}, []string{"net/http"}},
	} {
		if got := violations(listedPackage{module + c.pkg, c.imports, c.deps}); !slices.Equal(got, c.bad) {
			t.Errorf("violations of %s importing %v, linking %v: %v, want %v", c.pkg, c.imports, c.deps, got, c.bad)
		}
	}
}

// The server links neither the research tools nor the plotting library.
func TestServerWithoutPlots(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"scheduler") {
		t.Fatalf("go list prints\n%s", out)
	}
	for _, d := range deps {
		if strings.HasPrefix(d, module+"bench") || strings.Contains(d, "plot") || strings.HasPrefix(d, "gonum.org/") ||
			strings.Contains(d, "/font") {
			t.Errorf("freshet must not depend on %s", d)
		}
	}
}

// pure lists the packages that only compute: the caller passes times and slots.
var pure = []string{"scheduler/policy", "scheduler/hybrid", "scheduler/rounds", "scheduler/rounds/interval", "scheduler/plan",
	"scheduler/cohort", "scheduler/proof", "endpoint/merge", "scheduler/update", "scheduler/wic", "notify/rule"}

// wallClock lists the functions of package time that read the clock or wait.
var wallClock = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep", "Tick"}

func TestPurePackages(t *testing.T) {
	for _, pkg := range pure {
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no files: %v", pkg, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range impure(f) {
				t.Errorf("%s is to be pure, and uses %s", file, bad)
			}
		}
	}
}

// impure lists what a file of a pure package must not use.
func impure(f *ast.File) (bad []string) {
	for _, i := range f.Imports {
		name := strings.Trim(i.Path.Value, `"`)
		switch root, _, _ := strings.Cut(name, "/"); root {
		case "net", "os", "context", "log", "syscall":
			bad = append(bad, name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(wallClock, s.Sel.Name) {
				bad = append(bad, "time."+s.Sel.Name)
			}
		}
		return true
	})
	return bad
}

func TestPurePackagesFindsViolations(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
import ("context"; "net/http"; "time")
var _ = time.Second
func f(context.Context, http.Handler) time.Time { return time.Now() }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if bad, want := impure(f), []string{"context", "net/http", "time.Now"}; !slices.Equal(bad, want) {
		t.Errorf("found %v, want %v", bad, want)
	}
}

// TestBubbles checks that tests use package bubble. Bubbles of the standard library sometimes
// crash under the race detector; package bubble explains why.
func TestBubbles(t *testing.T) {
	seen := 0
	for file, text := range sources(t) {
		if filepath.Base(filepath.Dir(file)) == "bubble" {
			continue
		}
		if strings.Contains(text, "synctest"+".Test(") {
			t.Errorf("%s: use bubble.Test", file)
		}
		if strings.Contains(text, "bubble"+".Test(") {
			seen++
		}
	}
	if seen == 0 {
		t.Error("no file has a bubble")
	}
}

// mostColumns is how many characters a line of Go may have.
const mostColumns = 140

func TestLinesAreShort(t *testing.T) {
	for file, text := range sources(t) {
		for _, n := range longLines(text) {
			t.Errorf("%s:%d has more than %d columns: break it", file, n, mostColumns)
		}
	}
	long := strings.Repeat("ä", mostColumns+1)
	if got := longLines("package x\n" + long + "\n" + long[2:]); !slices.Equal(got, []int{2}) {
		t.Errorf("%v of three lines are long", got)
	}
}

// longLines returns the numbers of the lines that have too many columns.
func longLines(text string) (list []int) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if len(line) > mostColumns && utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > mostColumns {
			list = append(list, n)
		}
	}
	return list
}

// sources returns the module's Go files with their paths.
func sources(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() != "node_modules" {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		list[file] = string(text)
		return err
	})
	if err != nil || len(list) < 100 {
		t.Fatalf("%d files: %v", len(list), err)
	}
	return list
}

// mostMethods is how many methods a type may have; a larger one does too many things.
// larger lists the types that have more, and by which number they are bounded.
const mostMethods = 40

var larger = map[string]int{
	"endpoint/merge.parser": 50,
}

// smaller lists types that are split by page, and so must stay smaller.
var smaller = map[string]int{"web/ui.visit": 20}

func TestTypesHaveFewMethods(t *testing.T) {
	methods := map[string]int{}
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			if d != nil && d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../")
		for _, typ := range receivers(f) {
			methods[pkg+"."+typ]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for typ, n := range methods {
		if most := cmp.Or(larger[typ], smaller[typ], mostMethods); n > most {
			t.Errorf("%s has %d methods, at most %d are wanted: give some of them and their fields to a type of their own", typ, n, most)
		}
	}
	for _, typ := range append(slices.Sorted(maps.Keys(smaller)), "scheduler.Loop", "scheduler/plan.Planner",
		"scheduler/plan.SlotBudget", "notify.Server", "store.DB", "web.call") {
		if methods[typ] == 0 {
			t.Errorf("%s has no methods: does it have another name by now?", typ)
		}
	}
}

// receivers lists the receiver types of a file's methods.
func receivers(f *ast.File) (types []string) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil {
			continue
		}
		typ := fn.Recv.List[0].Type
		if p, ok := typ.(*ast.StarExpr); ok {
			typ = p.X
		}
		switch g := typ.(type) { // a generic type
		case *ast.IndexExpr:
			typ = g.X
		case *ast.IndexListExpr:
			typ = g.X
		}
		types = append(types, typ.(*ast.Ident).Name)
	}
	return types
}

func TestReceivers(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
func (a) f() {}
func (*b) f() {}
func (*c[T]) f() {}
func (d[K, V]) f() {}
func f() {}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := receivers(f), []string{"a", "b", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestInterfaces checks that what package web needs of others comes in interfaces with at most ten
// methods, each of which is whole: none embeds another one of the package.
func TestInterfaces(t *testing.T) {
	seen := 0
	for _, dir := range []string{"../../web", "../../web/ui"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				typ, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if i, ok := typ.Type.(*ast.InterfaceType); ok {
					seen++
					n, whole := methodsOf(i)
					if n > 10 || !whole {
						t.Errorf("%s: %s has %d methods of its own, at most 10 are wanted: %v", file, typ.Name.Name, n, whole)
					}
				}
				return true
			})
		}
	}
	if seen < 20 {
		t.Errorf("%d interfaces seen", seen)
	}
}

// methodsOf counts the methods that an interface declares, and reports whether it embeds none of its
// own package.
func methodsOf(i *ast.InterfaceType) (n int, whole bool) {
	whole = true
	for _, m := range i.Methods.List {
		n += len(m.Names)
		if _, own := m.Type.(*ast.Ident); own {
			whole = false
		}
	}
	return n, whole
}

// TestTopLevel checks that the repository has only the directories that the README
// explains, so that a newcomer finds a package by its subject.
func TestTopLevel(t *testing.T) {
	rooms := []string{"bench", "cmd", "diff", "endpoint", "notify", "registry", "scheduler", "store", "web"}
	made := []string{"bin", "dist", "freshet-data", "node_modules", "test-output"} // by commands
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range entries {
		switch name := e.Name(); {
		case !e.IsDir() || strings.HasPrefix(name, ".") || slices.Contains(made, name):
		case slices.Contains(rooms, name):
			seen++
		default:
			t.Errorf("%s: no such directory is expected at the top level", name)
		}
	}
	if seen != len(rooms) {
		t.Errorf("%d of %d directories seen", seen, len(rooms))
	}
}

// Packages of the store leave the formats of files to bbolt and JetStream, whose updates may change them.
func TestNoForeignFormats(t *testing.T) {
	err := filepath.WalkDir(filepath.Join("..", "..", "store"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, bad := range foreignFormats(string(text)) {
			t.Errorf("%s: %s: use the public interface of bbolt or of nats-server", name, bad)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(foreignFormats("f.ReadAt(b, 0)\nos.Truncate(path, 1)")) != 2 {
		t.Error("it finds nothing")
	}
}

// foreignFormats returns what a program needs that reads or changes the files of another one.
func foreignFormats(text string) (bad []string) {
	for _, what := range []string{".ReadAt(", ".WriteAt(", "Truncate(", "NativeEndian", "highwayhash", `".blk"`, "index.db"} {
		if strings.Contains(text, what) {
			bad = append(bad, what)
		}
	}
	return bad
}
