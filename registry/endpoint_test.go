package registry

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestCloneOfAnEndpointSharesNothing fills every setting and looks for memory that the
// copy has in common with the original.
func TestCloneOfAnEndpointSharesNothing(t *testing.T) {
	var e Endpoint
	fill(reflect.ValueOf(&e).Elem())
	c := e.Clone()
	if !reflect.DeepEqual(c, e) {
		t.Errorf("the copy is\n%+v, the original\n%+v", c, e)
	}
	checkNothingShared(t, "Endpoint", reflect.ValueOf(e), reflect.ValueOf(c))
}

// TestSharedURLs compares URLs as a client does that resolves them.
func TestSharedURLs(t *testing.T) {
	var all []Endpoint
	for name, at := range map[string]string{
		"a": "http://127.0.0.1:3030/sparql", "b": "http://127.0.0.1:3030/sparql", "other-path": "http://127.0.0.1:3030/sparql/",
		"other-port": "http://127.0.0.1:3031/sparql",
		"c":          "https://Example.org", "d": "HTTPS://example.org:443/", "e": "https://example.org:443",
		"other-scheme": "http://example.org/",
	} {
		all = append(all, Endpoint{Name: name, URL: at})
	}
	if got, want := SharedURLs(all), [][]string{{"a", "b"}, {"c", "d", "e"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("shared by %v, want %v", got, want)
	}
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), reflect.Zero(v.Type().Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.String:
		v.SetString("text")
	}
}

func checkNothingShared(t *testing.T, path string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			checkNothingShared(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	case reflect.Slice, reflect.Map, reflect.Pointer:
		if !a.IsNil() && a.UnsafePointer() == b.UnsafePointer() {
			t.Errorf("%s is shared", path)
		}
		if a.Kind() == reflect.Pointer && !a.IsNil() {
			checkNothingShared(t, path, a.Elem(), b.Elem())
		}
		if a.Kind() == reflect.Slice {
			for i := range a.Len() {
				checkNothingShared(t, path, a.Index(i), b.Index(i))
			}
		}
	}
}

// A position is one value, and a wrong one is refused with what to write.
func TestPositions(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT ?n { ?s ?p ?n }":                "",
		"SELECT (MAX(?n) AS ?m) { ?s ?p ?n }":   "",
		"dateModified":                          "",
		"SELECT ?s ?n { ?s ?p ?n }":             "2 columns (?s, ?n)",
		"SELECT * { ?s ?p ?n }":                 "name the one variable",
		"SELECT (MAX(?n)) { ?s ?p ?n }":         "without a name",
		"ASK { ?s ?p ?n }":                      "this is an ASK",
		"datemodified":                          "dateModified, updateStreamNextOffset, updatesCompleteUntil",
		"INSERT DATA { <a:a> <a:b> <a:c> }":     "no query",
		"SELECT (NOW() AS ?n) { } ORDER BY ?n":  "",
		"DESCRIBE <http://example.org/updates>": "this is a DESCRIBE",
	} {
		e := Endpoint{Name: "x", URL: "http://127.0.0.1/", Feed: "f", Position: text}.WithDefaults()
		err := CheckEndpoint(e, nil)
		if want == "" && err == nil {
			continue
		}
		p, ok := errors.AsType[*Problem](err)
		if want == "" || !ok || p.Errors[0].Pointer != "/position" || !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	e := Endpoint{Name: "x", URL: "http://127.0.0.1/", Position: "dateModified"}.WithDefaults()
	if err := CheckEndpoint(e, nil); err == nil || !strings.Contains(err.Error(), "name the feed") {
		t.Errorf("a position without a feed: %v", err)
	}
	if !strings.HasPrefix(e.PositionQuery(), "SELECT (MIN(?t) AS ?until)") || e.Lag != DefaultLag {
		t.Errorf("%q, lag %s", e.PositionQuery(), e.Lag)
	}
	for _, name := range []string{"updateStreamNextOffset", "updatesCompleteUntil", "dateModified"} {
		if err := checkPosition((Endpoint{Position: name}).PositionQuery()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrivateHost(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "169.254.1.1": true, "localhost": true, "triples": true, "a.localhost": true,
		"NAS.lan": true, "nas.home.arpa.": true, "a.internal": true, "a.test": true,
		"8.8.8.8": false, "2001:4860:4860::8888": false, "example.org": false, "lan.example.org": false,
	} {
		if PrivateHost(host) != want {
			t.Errorf("%s: want %t", host, want)
		}
	}
}

// The port that a scheme has anyway makes no other host, so a wish to be left alone stays, and secrets may follow.
func TestHostsOfEdits(t *testing.T) {
	waits := Health{State: HealthThrottled, Until: time.Now().Add(time.Hour)}
	for _, c := range []struct {
		was, now string
		same     bool
	}{
		{"https://h/", "https://h:443/sparql", true},
		{"http://h:80/", "http://H/", true},
		{"http://h:80/", "https://h/", true},
		{"https://h/", "https://h:8443/", false},
		{"http://h/", "http://h:443/", false},
		{"http://h/", "http://h.example/", false},
	} {
		was, now := Endpoint{URL: c.was}, Endpoint{URL: c.now}
		if got := waits.AfterEdit(was, now); (got == waits) != c.same {
			t.Errorf("from %s to %s: %+v", c.was, c.now, got)
		}
		if LeavesHost(was, now) == c.same {
			t.Errorf("from %s to %s: leaves the host is %v", c.was, c.now, c.same)
		}
	}
}
