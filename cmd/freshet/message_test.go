package main

import "testing"

// What a damaged file or a server says moves no cursor and hides nothing.
func TestPlainMessages(t *testing.T) {
	for in, want := range map[string]string{
		"query é: 2 × 日本\n\tnext":    "query é: 2 × 日本\n\tnext",
		"a\x1b[2Jb\r\x00\x9b\u202ec": "a\ufffd[2Jb\ufffd\ufffd\ufffd\ufffdc",
	} {
		if got := printed(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}
