package live

import (
	"errors"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A login identifies the client of a connection.
type login struct {
	from   string // the client's address
	token  string // of init, else of the upgrade request
	sent   bool   // a token was sent
	client string // the program's name, as the client gives it
	ready  bool   // init was accepted
	caller registry.Caller
	expiry time.Time // of the token, zero: never
}

// check authenticates the token. A client that has sent none follows public queries where others need one. Its error closes the
// connection.
func (l *login) check(s *Server) error {
	from := l.from
	if l.ready { // whether its token is still valid is no guess
		from = ""
	}
	caller, err := s.opts.Gate.Authenticate(from, l.token)
	switch {
	case errors.Is(err, registry.ErrGuessing):
		return &closing{CloseRate, err.Error()}
	case errors.Is(err, notify.ErrUnauthorized) && !l.sent:
		l.caller = registry.Caller{Name: registry.Anonymous}
		return nil
	case errors.Is(err, notify.ErrUnauthorized):
		return &closing{CloseUnauthorized, "no valid token"}
	case notify.Elsewhere(err) != "":
		return errElsewhere
	case err != nil:
		s.opts.Logger.Error("authenticate a live connection", "error", err)
		return &closing{websocket.CloseInternalServerErr, "internal error"}
	case !caller.MayRead(nil):
		return &closing{CloseForbidden, "the token does not allow to follow"}
	}
	l.caller = caller
	return nil
}

func (l *login) expired(now time.Time) bool { return !l.expiry.IsZero() && !now.Before(l.expiry) }
