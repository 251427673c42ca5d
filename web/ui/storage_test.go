package ui

import (
	"testing"

	"github.com/freshet/freshet/registry"
)

// A condition implements web.Health with a given state of the disk.
type condition struct{ disk *registry.Storage }

func (c condition) Ready() error { return nil }

func (c condition) Starting() int { return 0 }

func (c condition) Disk() registry.Storage { return *c.disk }

// Every page reports a disk that is full or nearly full.
func TestPagesTellOfTheDisk(t *testing.T) {
	now := registry.Storage{}
	r := newRigWith(t, func(_ *rig, c *Config) { c.Health = condition{&now} })
	r.endpoint("city")
	r.get("/").status(200).lacks("disk is")
	now = registry.Storage{Short: true}
	r.get("/").status(200).has("The disk is nearly full.", "limits.reserve")
	now = registry.Storage{ReadOnly: true, Short: true}
	for _, path := range []string{"/", "/queries", "/endpoints"} {
		r.get(path).status(200).has("Read-only: the disk is full.")
	}
}
