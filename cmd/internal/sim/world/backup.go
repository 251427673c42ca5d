package main

// This file makes and restores a backup, as an operator does.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
	"github.com/freshet/freshet/store"
)

const backup = state + "/backup.db" // complete once the note "backup" is there

// backUp makes the backup at its time.
func (w *world) backUp(ctx context.Context) {
	done := false
	for at := w.Backup; !recall("backup", &done) && w.until(ctx, at); at = w.now() + pauseOfHolders {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.server()+"/v1/backup", nil)
		if err != nil {
			return
		}
		w.sign(r, holderToken)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK && os.WriteFile(backup, b, 0o644) == nil && keep("backup", true) == nil {
			return
		}
	}
}

// restore puts the backup into an empty data directory, if its time has come.
func (w *world) restore() error {
	made, done := false, false
	if w.Restore == 0 || w.offset < w.Restore || !recall("backup", &made) || recall("restored", &done) {
		return nil
	}
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	b, err := os.ReadFile(backup)
	if err != nil {
		return err
	}
	f, err := os.Create(data + "/" + store.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	for i := range w.Followers { // those that subscribed after the backup do it again
		os.Remove(notes(fmt.Sprint("subscribed", i)))
	}
	w.write(plan.Event{Kind: plan.Restored})
	return keep("restored", true)
}
