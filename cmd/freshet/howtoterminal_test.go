package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/web/docs/docstest"
)

// environment returns that of a reader who has installed the program: no setting of
// Freshet is in it. The program itself finds the engine, and the server at a free address
// instead of the usual one.
func (r *reader) environment(bench bool) (env []string) {
	engine, err := local.FindEngine("")
	if err != nil {
		r.t.Fatal(err)
	}
	program := binary(r.t)
	if bench {
		program = both(r.t)
	}
	script := fmt.Sprintf("#!/bin/sh\nexport FRESHET_ENGINE=%s FRESHET_SERVER=http://%s\nexec %s \"$@\"\n", engine,
		r.move("127.0.0.1:8080"), program)
	dir := r.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "freshet"), []byte(script), 0o755); err != nil {
		r.t.Fatal(err)
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "FRESHET_") && !strings.HasPrefix(v, "PATH=") {
			env = append(env, v)
		}
	}
	return append(env, "PATH="+dir+":"+os.Getenv("PATH"), "checkout="+checkout, "modules="+filepath.Join(checkout, "web/client/node_modules"))
}

// A terminal is a shell with a reader at its keyboard.
type terminal struct {
	t     testing.TB
	keys  io.WriteCloser
	file  string // with the output
	ended chan struct{}
	read  int    // bytes of the output
	last  string // output of the last block, where the reader has waited for its end
}

// terminal returns the terminal with a name, which it opens first if need be.
func (r *reader) terminal(name string) *terminal {
	if r.terminals[name] != nil {
		return r.terminals[name]
	}
	term := &terminal{t: r.t, file: filepath.Join(r.t.TempDir(), "output"), ended: make(chan struct{})}
	f, err := os.OpenFile(term.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command("bash", "-eu")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.dir, r.env, f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if term.keys, err = cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(term.ended)
	}()
	r.t.Cleanup(func() {
		endGroup(r.t, cmd.Process.Pid)
		<-term.ended
		_ = f.Close()
	})
	r.terminals[name] = term
	return term
}

// endGroup ends all processes of a terminal, and waits until they have ended.
func endGroup(t testing.TB, group int) {
	_ = syscall.Kill(-group, syscall.SIGTERM)
	for start := time.Now(); runs(group); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Errorf("processes of a page do not end within a minute")
			_ = syscall.Kill(-group, syscall.SIGKILL)
			return
		}
	}
}

// runs reports whether a process of a group runs. Those that have ended no longer count,
// although the system may take seconds until it forgets them.
func runs(group int) bool {
	if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return false
	}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		var state string
		var parent, of int
		_, after, _ := strings.Cut(string(text), ") ")
		if _, err := fmt.Sscan(after, &state, &parent, &of); err == nil && of == group && state != "Z" && state != "X" {
			return true
		}
	}
	return len(files) == 0
}

func (term *terminal) enter(text string) {
	if _, err := io.WriteString(term.keys, text); err != nil {
		term.t.Errorf("the shell has ended: %v", err)
	}
}

// unread returns the output that was not read.
func (term *terminal) unread() string {
	b, err := os.ReadFile(term.file)
	if err != nil {
		term.t.Fatal(err)
	}
	return string(b[term.read:])
}

// wait waits until enough says so of the output, and reports whether it did. Otherwise the
// shell has ended, or the reader's patience.
func (term *terminal) wait(ctx context.Context, enough func(output string) bool) bool {
	for {
		over := false
		select {
		case <-term.ended:
			over = true
		case <-ctx.Done():
			over = true
		case <-time.After(20 * time.Millisecond):
		}
		if enough(term.unread()) || over {
			return !over || enough(term.unread())
		}
	}
}

// finish enters a block, waits until its commands have ended, and reports whether they succeeded.
func (term *terminal) finish(ctx context.Context, text string) bool {
	const mark = "%%% end of a block\n"
	term.enter(text + "echo '" + strings.TrimSuffix(mark, "\n") + "'\n")
	ok := term.wait(ctx, func(output string) bool { return strings.Contains(output, mark) })
	output, _, _ := strings.Cut(term.unread(), mark)
	term.last, term.read = output, term.read+len(output)+len(mark)
	if !strings.HasSuffix(output, "\n") && output != "" {
		term.last += "\n"
	}
	return ok
}

// next waits for an output in a terminal whose command goes on, and returns what is there
// after its patience if it does not come.
func (term *terminal) next(ctx context.Context, want string) string {
	patience := time.Minute
	if *update {
		patience = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	first := func(output string) string {
		lines := strings.SplitAfter(output, "\n")
		return strings.Join(lines[:min(len(lines), strings.Count(want, "\n"))], "")
	}
	if !term.wait(ctx, func(output string) bool { return docstest.Shows(want, first(output)) }) {
		got := term.unread()
		term.read += len(got)
		return got
	}
	got := first(term.unread())
	term.read += len(got)
	return got
}
