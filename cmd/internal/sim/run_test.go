package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// program is a module that prints a text and ends with a code, or by an instruction that is not allowed if that is -1.
func program(text string, code int) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, body string) {
		b = append(binary.AppendUvarint(append(b, id), uint64(len(body))), body...)
	}
	name := func(s string) string { return string(rune(len(s))) + s }
	wasi := name("wasi_snapshot_preview1")
	section(1, "\x03\x60\x04\x7f\x7f\x7f\x7f\x01\x7f\x60\x01\x7f\x00\x60\x00\x00") // types
	section(2, "\x02"+wasi+name("fd_write")+"\x00\x00"+wasi+name("proc_exit")+"\x00\x01")
	section(3, "\x01\x02")                                                 // functions
	section(5, "\x01\x00\x01")                                             // memory
	section(7, "\x02"+name("memory")+"\x02\x00"+name("_start")+"\x00\x02") // exports
	body := "\x00\x41\x02\x41\x00\x41\x01\x41\x04\x10\x00\x1a\x00\x0b"     // fd_write(2, 0, 1, 4), unreachable
	if code >= 0 {
		body = body[:len(body)-2] + "\x41" + string(rune(code)) + "\x10\x01\x0b" // proc_exit(code)
	}
	section(10, "\x01"+name(body))
	data := string(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 8), uint32(len(text)))) + text
	section(11, "\x01\x00\x41\x00\x0b"+string(binary.AppendUvarint(nil, uint64(len(data))))+data)
	return b
}

func compiled(t *testing.T, code []byte) *Module {
	t.Helper()
	m, err := Compile(t.Context(), code, t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.runtime.Close(t.Context()) })
	return m
}

// A world in which the server's process ends by itself is wrong, and it has a story.
func TestEnded(t *testing.T) {
	for code, want := range map[int]string{
		2:  "   0.000s the server's process ends with code 2:\n    panic: at the disco\n    goroutine 1 [running]:",
		-1: "   0.000s the server's process fails:\n    panic: at the disco\n    goroutine 1 [running]:\n    module[] function[_start] failed: ",
	} {
		r, err := Simulate(t.Context(), compiled(t, program("panic: at the disco\ngoroutine 1 [running]:\n", code)), plan.New(1), none)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.wrong(); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%q, want %q", got, want)
		}
		last := strings.TrimSuffix(strings.Split(want, "\n")[0], ":")
		if got := string(story(r)); !strings.HasSuffix(got, "\n"+last+"\n") {
			t.Errorf("%s\ndoes not end with %s", got, last)
		}
	}
}

// Other worlds run after one in which the server panics, and such a world can be made smaller.
func TestPanickedWorlds(t *testing.T) {
	c := command{from: 5, seeds: 3, jobs: 1, module: compiled(t, program("panic: at the disco", 2))}
	if err := c.judge(t.Context(), none); err == nil || err.Error() != "3 seeds are wrong: [5 6 7]" {
		t.Error(err)
	}
	c.seed = 5
	if err := c.shrink(t.Context(), none); err != nil {
		t.Error(err)
	}
	if left := len(plan.New(5).Parts()) - len(c.parts()); left > 0 {
		t.Errorf("%d parts are left", left)
	}
	f := finder{command: &c, clean: map[uint64]*cleanRun{}}
	if clean := f.without(t.Context(), plan.New(5)); clean.met != nil {
		t.Error("a world that is wrong by itself is used to find bugs")
	}
}

// What is shown of the output begins with the panic, or has the last lines.
func TestLastLines(t *testing.T) {
	lines := []string{}
	for i := range 50 {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	shown := func(lines []string) []string {
		return strings.Split(ended(2, nil, strings.Join(lines, "\n")), "\n    ")[1:]
	}
	if got := shown(lines); !slices.Equal(got, lines[30:]) {
		t.Errorf("of 50 lines: %q", got)
	}
	lines[10] = "fatal error: all goroutines are asleep - deadlock!"
	if got := shown(lines); !slices.Equal(got, lines[10:30]) {
		t.Errorf("of an early error: %q", got)
	}
	if got := ended(endless, nil, ""); strings.Contains(got, "\n") || !strings.Contains(got, "never end") {
		t.Errorf("of nothing: %q", got)
	}
}

// A smaller world is one in which the same is wrong: its text begins with the same words.
func TestAlike(t *testing.T) {
	for _, c := range []struct {
		is, was []string
		want    bool
	}{
		{[]string{"377.185s query 1 is not fresh 3m0s after the last fault: [1 3]"}, []string{"9s query 4 is not fresh 3m0s after it"}, true},
		{[]string{"1s a panic", "2s follower 1 (sse) ends at change 3 of 4"}, []string{"3s follower 2 (sse) ends at change 1 of 2"}, true},
		{[]string{"0.1s the server's process ends with code 2:\npanic"}, []string{"9s query 4 is not fresh"}, false},
		{nil, []string{"9s query 4 is not fresh"}, false},
	} {
		if got := alike(c.is, c.was); got != c.want {
			t.Errorf("%q and %q: %v", c.is, c.was, got)
		}
	}
}
