package demo

// This file runs the servers of the demo: one, or the nodes of a cluster in one process.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	cryptorand "crypto/rand"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
)

type demoNodes []*server.Server

// serve opens the servers of the demo. The nodes of a cluster wait for each other.
func (d demo) serve(ctx context.Context, conf *config.Config, log *slog.Logger) (demoNodes, error) {
	confs, err := d.members(conf)
	if err != nil {
		return nil, err
	}
	opened, errs := make([]*server.Server, len(confs)), make(chan error, len(confs))
	var opening sync.WaitGroup
	for i, c := range confs {
		opening.Go(func() {
			s, err := server.New(ctx, c, log)
			if err == nil {
				opened[i] = s
			}
			errs <- err
		})
	}
	for range confs {
		if err := <-errs; err != nil { // the others would wait for this one
			return nil, err
		}
	}
	return opened, nil
}

// members returns the configurations of the nodes. One node is no cluster.
func (d demo) members(conf *config.Config) ([]*config.Config, error) {
	if d.nodes == 1 {
		return []*config.Config{conf}, nil
	}
	host, text, err := net.SplitHostPort(conf.Listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	secret := filepath.Join(conf.Data, "token")
	if err := os.WriteFile(secret, []byte(cryptorand.Text()), 0o600); err != nil {
		return nil, err
	}
	peers := map[string]string{}
	for i := range d.nodes {
		if peers[nodeName(i)], err = unusedAddress(); err != nil {
			return nil, err
		}
	}
	var confs []*config.Config
	for i := range d.nodes {
		c, name := *conf, nodeName(i)
		if port > 0 {
			c.Listen = net.JoinHostPort(host, strconv.Itoa(port+i))
		}
		c.PublicURL, c.Data = "", filepath.Join(conf.Data, name)
		c.Cluster.Name, c.Cluster.Node, c.Cluster.Listen, c.Cluster.Peers, c.Cluster.TokenFile = "demo", name, peers[name], peers, secret
		if err := c.Check(); err != nil {
			return nil, err
		}
		confs = append(confs, &c)
	}
	return confs, nil
}

func nodeName(i int) string { return fmt.Sprint("n", i+1) }

// unusedAddress returns an address of the loopback interface for the journal. Its port is below
// those that systems choose for connections, so another program hardly takes it in the meantime.
func unusedAddress() (string, error) {
	for tries := 1; ; tries++ {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20_000+rand.IntN(10_000)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
		if tries == 100 {
			return "", cli.ListenError(err)
		}
	}
}

// describe says what the nodes of a cluster show.
func (n demoNodes) describe() string {
	if len(n) == 1 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nthe nodes of the cluster, each with all pages and the whole API:\n")
	for i, s := range n {
		fmt.Fprintf(&b, "  %s  %s\n", nodeName(i), s.URL())
	}
	fmt.Fprintf(&b, "see who asks which endpoint: freshet cluster status --leases --server %s\n", n[0].URL())
	fmt.Fprintf(&b, "take the endpoints from n1: freshet cluster drain n1 --server %s\n", n[1].URL())
	return b.String()
}

// run serves until ctx ends or a node fails. All nodes end before any closes its journal, since
// a node that leaves writes that down.
func (n demoNodes) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error)
	for _, s := range n {
		go func() { ended <- s.Run(ctx) }()
	}
	var err error
	for range n {
		err = errors.Join(err, <-ended)
		stop()
	}
	return err
}

func (n demoNodes) close() {
	var closing sync.WaitGroup
	for _, s := range n {
		closing.Go(func() { s.Close() })
	}
	closing.Wait()
}
