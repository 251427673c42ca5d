package server

// This file puts the endpoints of the configuration file in force when the server starts.

import (
	"context"
	"errors"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
)

// applyAgain is the time between two attempts to apply the endpoints of the file.
const applyAgain = 2 * time.Second

// applyFile puts the endpoints of a configuration in force. If nothing can be stored now, applyLater does that.
func (s *Server) applyFile(c *config.Config) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	err := s.Registry.ApplyFile(c.Endpoints, c.Sources.OfEndpoint)
	switch {
	case notNow(err):
		s.log.Warn("what the configuration file changed of its endpoints is not in force yet: it is applied as soon as it can be stored",
			"error", err)
		s.unapplied = c
	case err != nil:
		return cli.WithCode(cli.ExitUsage, err)
	}
	unknown := noDefaultEndpoint(c)
	if unknown == nil {
		return nil
	}
	switch _, err = s.Store.Endpoints.Endpoint(c.DefaultEndpoint); {
	case errors.Is(err, registry.ErrNotFound):
		return unknown
	case errors.Is(err, registry.ErrReadOnly): // it is not known now whether there is one
		return nil
	}
	return err
}

// notNow reports whether an edit was refused because nothing can be stored at the moment, or nothing new.
func notNow(err error) bool {
	p, ok := errors.AsType[*registry.Problem](err)
	return errors.Is(err, registry.ErrReadOnly) || ok && p.Kind == registry.KindStorageFull
}

// applyLater does what applyFile could not do, until it succeeds, a reload has applied a newer file, or ctx ends.
func (s *Server) applyLater(ctx context.Context) {
	for s.stillUnapplied() && s.clock.Sleep(ctx, s.clock.Now().Add(applyAgain)) == nil {
	}
}

// stillUnapplied tries to apply what is not in force yet, and reports whether to try again.
func (s *Server) stillUnapplied() bool {
	s.applying.Lock()
	defer s.applying.Unlock()
	c := s.unapplied
	if c == nil {
		return false
	}
	err := s.Registry.ApplyFile(c.Endpoints, c.Sources.OfEndpoint)
	switch {
	case notNow(err):
		return true
	case err != nil:
		s.log.Error("what the configuration file changed of its endpoints is not in force: correct it, and SIGHUP applies it", "error", err)
	default:
		s.log.Info("the endpoints of the configuration file are in force")
	}
	s.unapplied = nil
	return false
}
