package sparql

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// seeds returns the queries of testdata/queries.
func seeds(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "queries", "*.rq"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no seed queries: %v", err)
	}
	var out []string
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

func TestSeedsAccepted(t *testing.T) {
	for _, text := range seeds(t) {
		if a, err := Analyse(text); err != nil {
			t.Errorf("%s\n%v", text, err)
		} else {
			checkFixpoint(t, a)
		}
	}
}

// FuzzAnalyse checks that no text causes a panic, that refusals give a reason
// and a position inside the text, and that the normal form is a fixpoint with
// the same analysis as the text.
func FuzzAnalyse(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Add("SELECT $x { ?s ?p $x } GROUP BY ?s")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Analyse(text)
		if _, why := Patterns(text); why == "" && err != nil && errors.Is(err, ErrUpdate) {
			t.Errorf("%q: an update has patterns", text)
		}
		if err == nil {
			checkForm(t, a)
			checkFixpoint(t, a)
			return
		}
		var e *SyntaxError
		switch {
		case errors.Is(err, ErrUpdate):
		case !errors.As(err, &e):
			t.Errorf("%q: unknown kind of error: %v", text, err)
		case e.Line < 1 || e.Column < 1 || e.Line > len(text)+1 || e.Column > len(text)+1 || e.Message == "":
			t.Errorf("%q: %+v", text, e)
		}
	})
}

func checkForm(t *testing.T, a *Analysis) {
	t.Helper()
	if !queryForms[a.Form] {
		t.Errorf("form %q", a.Form)
	}
	if a.OrderKeys != nil && !a.Ordered {
		t.Error("order keys without order")
	}
	if a.Limit < -1 || a.Offset < -1 {
		t.Errorf("limit %d, offset %d", a.Limit, a.Offset)
	}
}
