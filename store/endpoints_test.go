package store

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/freshet/freshet/registry"
)

// TestDecodedEndpoints reads endpoints again after edits, after their removal, and after a caller has changed what
// it read. There are more of them than are kept decoded.
func TestDecodedEndpoints(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	edit := func(name, url string) {
		t.Helper()
		if _, err := d.Endpoints.EditEndpoint(name, func(c *registry.Configured, _ bool) error {
			c.Endpoint.URL, c.Endpoint.OwnServices = url, []string{"http://own.invalid/"}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	find := func(name string) registry.Endpoint {
		t.Helper()
		e, err := d.Endpoints.Endpoint(name)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	edit("e", "http://a.invalid/")
	first := find("e")
	changed := find("e")
	changed.OwnServices[0] = "http://other.invalid/"
	if again := find("e"); !reflect.DeepEqual(again, first) {
		t.Errorf("after a caller changed what it read it is %+v, not %+v", again, first)
	}
	edit("e", "http://b.invalid/")
	if e := find("e"); e.URL != "http://b.invalid/" {
		t.Errorf("after an edit its URL is %s", e.URL)
	}
	edit("e", "")
	if e, err := d.Endpoints.Endpoint("e"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("the removed endpoint is %+v, %v", e, err)
	}
	edit("f", "http://f.invalid/")
	find("f")
	for i := range mostDecoded { // names that were used once take no memory forever
		d.Endpoints.decoded[fmt.Sprint(i)] = decodedEndpoint{}
	}
	edit("g", "http://g.invalid/")
	find("g")
	if n := len(d.Endpoints.decoded); n > mostDecoded {
		t.Errorf("%d endpoints are kept decoded", n)
	}
	if e := find("f"); e.URL != "http://f.invalid/" {
		t.Errorf("its URL is %s", e.URL)
	}
}
