package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server serves a Handler on the network.
type Server struct {
	URL    string // of the SPARQL endpoint, for example http://127.0.0.1:3030/sparql
	server *http.Server
	done   chan struct{} // closed when Serve has returned
	err    error         // why, once done is closed
}

// Listen serves a Handler at /sparql of addr, for example "127.0.0.1:0", until
// ctx ends or Close is called. It listens when it returns. The caller closes
// the engine, after the server.
func Listen(ctx context.Context, addr string, h http.Handler) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for SPARQL: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/sparql", h)
	s := &Server{
		URL: "http://" + listener.Addr().String() + "/sparql",
		server: &http.Server{
			Handler:           mux,
			BaseContext:       func(net.Listener) context.Context { return ctx },
			ReadHeaderTimeout: 10 * time.Second,
			ReadTimeout:       2 * time.Minute,
			IdleTimeout:       2 * time.Minute,
		},
		done: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, func() { _ = s.server.Close() })
	go func() {
		defer stop()
		err := s.server.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		s.err = err
		close(s.done)
	}()
	return s, nil
}

// Close stops the server and cuts running requests.
func (s *Server) Close() error {
	err := s.server.Close()
	return errors.Join(err, s.Wait())
}

// Wait blocks until the server ends and returns why, nil after ctx ended.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}
