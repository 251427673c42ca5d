package server

// This file puts the endpoints of the configuration file in force, when the server starts and when it reloads the file.

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

// applyEndpoints puts the endpoints of a configuration in force. If they cannot be stored now, applyLater does that. The caller
// holds applying.
func (s *Server) applyEndpoints(c *config.Config) error {
	err := s.Registry.ApplyFile(c.Endpoints, c.Sources.OfEndpoint)
	switch {
	case err == nil:
		s.unapplied = nil
	case notNow(err):
		if s.unapplied != c {
			s.log.Warn("what the configuration file changed of its endpoints is not in force yet: it is applied as soon as it can be stored",
				"error", err)
		}
		s.unapplied = c
		select {
		case s.postponed <- struct{}{}:
		default:
		}
	default:
		return err
	}
	return nil
}

// applyFile puts the endpoints of the configuration in force with which the server starts.
func (s *Server) applyFile(c *config.Config) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	if err := s.applyEndpoints(c); err != nil {
		return cli.WithCode(cli.ExitUsage, err)
	}
	unknown := noDefaultEndpoint(c)
	if unknown == nil {
		return nil
	}
	switch _, err := s.Store.Endpoints.Endpoint(c.DefaultEndpoint); {
	case errors.Is(err, registry.ErrNotFound):
		return unknown
	case errors.Is(err, registry.ErrReadOnly): // it is not known now whether there is one
		return nil
	default:
		return err
	}
}

// notNow reports whether an edit was refused because nothing can be stored at the moment, or nothing new.
func notNow(err error) bool {
	p, ok := errors.AsType[*registry.Problem](err)
	return errors.Is(err, registry.ErrReadOnly) || ok && p.Kind == registry.KindStorageFull
}

// applyLater does what applyEndpoints could not do, until ctx ends: it tries again until that succeeds or a newer file is applied.
func (s *Server) applyLater(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.postponed:
		}
		if s.clock.Sleep(ctx, s.clock.Now().Add(applyAgain)) != nil {
			return
		}
		s.applying.Lock()
		if c := s.unapplied; c != nil {
			switch err := s.applyEndpoints(c); {
			case err != nil:
				s.log.Error("what the configuration file changed of its endpoints is not in force: correct it, and SIGHUP applies it", "error", err)
				s.unapplied = nil
			case s.unapplied == nil:
				s.log.Info("the endpoints of the configuration file are in force")
			}
		}
		s.applying.Unlock()
	}
}
