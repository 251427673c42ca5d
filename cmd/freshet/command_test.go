package main

import (
	"encoding/json"
	"testing"

	"github.com/spf13/cobra"
)

// The flags that were given become the members of a request with their JSON types. Flags of
// the parent, excluded ones and defaults do not.
func TestGivenFlags(t *testing.T) {
	for _, x := range []struct {
		args []string
		body string
		path string
	}{
		{nil, `{}`, "/p?"},
		{[]string{"--name", "n", "--min-interval", "1m", "--weight", "1.5", "--public", "--tag", "a,b", "--tag", "c"},
			`{"min_interval":"1m","name":"n","public":true,"tags":["a","b","c"],"weight":1.5}`, "/p?min_interval=1m&name=n"},
		{[]string{"--name", "12", "--public=false", "--most", "3", "--json"}, `{"name":"12","public":false}`, "/p?name=12"},
		{[]string{"--name", ""}, `{"name":""}`, "/p?"},
	} {
		parent, c := &cobra.Command{Use: "p"}, &cobra.Command{Use: "c"}
		parent.AddCommand(c)
		parent.PersistentFlags().Bool("json", false, "")
		c.Flags().String("name", "", "")
		c.Flags().String("min-interval", "", "")
		c.Flags().Float64("weight", 1, "")
		c.Flags().Bool("public", false, "")
		c.Flags().StringSlice("tag", nil, "")
		c.Flags().Int("most", 20, "")
		if err := c.ParseFlags(x.args); err != nil {
			t.Fatal(err)
		}
		members := map[string]string{"tag": "tags", "most": ""}
		body, err := json.Marshal(given(c, members))
		if err != nil || string(body) != x.body {
			t.Errorf("%v: body %s, %v, want %s", x.args, body, err, x.body)
		}
		if path := withGiven("/p", c, members); path != x.path {
			t.Errorf("%v: path %s, want %s", x.args, path, x.path)
		}
	}
}
