package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// printFields prints a JSON object as aligned lines, in the server's order.
func printFields(w io.Writer, body io.Reader) error {
	d := json.NewDecoder(body)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("the server did not answer with an object")
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return err
		}
		text := string(v)
		var s string
		if json.Unmarshal(v, &s) == nil {
			text = s
		}
		fmt.Fprintf(t, "%v\t%s\n", key, text)
	}
	return t.Flush()
}
