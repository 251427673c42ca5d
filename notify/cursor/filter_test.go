package cursor_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

func TestParseParams(t *testing.T) {
	for _, bad := range []string{"min_jaccard=x", "min_jaccard=2", "min_jaccard=NaN", "min_rows=-1", "min_rows=1.5", "where=s",
		"where=s:=", "where=s:~:x", "rate=5", "rate=-1s", "rate=25h"} {
		q, err := url.ParseQuery(bad)
		must(err)
		if f, _, err := cursor.ParseParams(q); err == nil {
			t.Errorf("%s is read as %+v", bad, f)
		}
	}
	q, err := url.ParseQuery("vars=a,b&vars=c&where=a:=:x:y&where=b:starts:&rate=90s&min_rows=2")
	must(err)
	f, rate, err := cursor.ParseParams(q)
	if err != nil || rate != 90*time.Second || f.All() {
		t.Fatalf("%+v %v %v", f, rate, err)
	}
	if f.Fits(&registry.Query{Form: diff.Ask}) == nil || f.Fits(&registry.Query{Form: diff.Select, Ordered: true}) == nil ||
		f.Fits(&registry.Query{Form: diff.Select}) != nil {
		t.Error("rows of ASK or of a sequence cannot be filtered, those of SELECT can")
	}
	if f, _, err := cursor.ParseParams(nil); err != nil || !f.All() {
		t.Errorf("nothing wished is %+v (%v)", f, err)
	}
}
