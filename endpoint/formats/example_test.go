package formats_test

import (
	"fmt"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/formats"
)

// An answer that is cut off is no answer, whatever its media type says.
func ExampleDecode() {
	body := []byte(`{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"uri","value":"http://example.org/a"}}]}}`)
	format, err := formats.Detect(diff.Select, "text/html", body)
	fmt.Println(format, err)
	format, err = formats.Detect(diff.Select, "application/sparql-results+json", body)
	if err != nil {
		panic(err)
	}
	r, rows, err := formats.Decode(format, body, diff.Select, diff.Options{})
	fmt.Println(r.Len(), rows, err)
	_, _, err = formats.Decode(format, body[:len(body)-1], diff.Select, diff.Options{})
	fmt.Println(err)
	// Output:
	// 0 the answer is text/html, which is not a format of results
	// 1 1 <nil>
	// not a complete results document: document ends early at byte 99
}
