package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A ServerConfig describes an embedded server, one of the members of a cluster.
type ServerConfig struct {
	Cluster string            // name; servers of other clusters are refused
	Node    string            // a key of Peers
	Listen  string            // address for the other members
	Peers   map[string]string // node → address at which the others reach it; the same on all members
	Clients string            // address for clients on other machines; "" for a free port of the loopback interface
	Dir     string            // for the journal's files
	Token   string            // shared by members and clients
	TLS     *tls.Config       `json:"-"` // for members and clients: its certificate serves both sides; nil for none
	Log     *slog.Logger      `json:"-"` // for warnings and errors of the server; nil for none
}

const (
	maxSize      = 32 << 30         // of the journal's files
	startTimeout = time.Minute      // longer than a start on a busy machine takes
	loginTimeout = 10 * time.Second // of a member or client that connects
	readyPause   = 100 * time.Millisecond
	mendPause    = time.Second      // between two looks at the health of the server
	sickWait     = 10 * time.Second // before a server starts again that was well
	startWait    = time.Minute      // before a server starts again that was not well since its start
	probeSize    = 4 << 20          // of the file that tells whether there is room
	user         = "freshet"        // of routes
)

// A Server is an embedded nats-server with JetStream. Each write is flushed to the disk before it
// is acknowledged. After a write that failed, such as on a full disk, nats-server takes no part in the cluster
// until it is started again, so that is done once files can be written.
type Server struct {
	config ServerConfig
	log    *logger
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	server *server.Server
}

// Start starts a server. It returns before the other members are reached; Open waits for a
// majority of them.
func Start(c ServerConfig) (*Server, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	err := probe("cluster.clients", c.Clients)
	if err == nil && len(c.Peers) > 1 {
		err = probe("cluster.listen", c.Listen)
	}
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, log: &logger{to: c.Log, said: map[string]time.Time{}}}
	if s.server, err = s.run(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { s.mend(ctx) })
	return s, nil
}

func (s *Server) run() (*server.Server, error) {
	x, err := server.NewServer(s.config.options())
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	s.log.fatal.Store(nil)
	x.SetLogger(s.log, false, false)
	x.Start()
	for end := time.Now().Add(startTimeout); !x.ReadyForConnections(readyPause); {
		why := s.log.fatal.Load()
		if why == nil && time.Now().Before(end) {
			continue
		}
		x.Shutdown()
		x.WaitForShutdown()
		if why != nil {
			return nil, fmt.Errorf("cluster: the journal's server cannot start: %s: if its files in %s are damaged, run freshet "+
				"cluster rebuild", *why, s.config.Dir)
		}
		return nil, fmt.Errorf("cluster: the journal's server on %s does not accept connections within %v: see its warnings; the "+
			"machine may be too busy", s.config.Listen, startTimeout)
	}
	if !x.JetStreamEnabled() {
		x.Shutdown()
		return nil, fmt.Errorf("cluster: the journal's server cannot use the directory %s: see its warnings", s.config.Dir)
	}
	return x, nil
}

// mend starts the server again when it has been unhealthy for some time, and files can be written.
func (s *Server) mend(ctx context.Context) {
	t := time.NewTicker(mendPause)
	defer t.Stop()
	began, wait, size := time.Now(), startWait, uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		old := s.current()
		why, grown := health(old, &size)
		switch {
		case why == "":
			began, wait = time.Now(), sickWait
			continue
		case grown, old.JetStreamEnabled() && s.Members() == 0: // it catches up, or is cut off
			began = time.Now()
			continue
		case old.JetStreamEnabled() && time.Since(began) < wait, !s.writable():
			continue
		}
		s.config.Log.Warn("the journal's server starts again", "reason", why)
		old.Shutdown()
		old.WaitForShutdown()
		fresh, err := s.run()
		if began, wait = time.Now(), startWait; err != nil {
			s.config.Log.Warn("the journal's server did not start again", "error", err)
			continue
		}
		s.mu.Lock()
		s.server = fresh
		s.mu.Unlock()
	}
}

// health returns why a server takes no part in the cluster, "" if it does, and whether its streams have grown.
func health(x *server.Server, size *uint64) (why string, grown bool) {
	if h := x.Healthz(nil); h.Error != "" {
		why = h.Error
	}
	info, err := x.JszAccount(&server.JSzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Streams: true})
	if err != nil { // JetStream is off
		return why, false
	}
	end := uint64(0)
	for _, s := range info.Streams {
		end += s.State.LastSeq
	}
	grown, *size = end > *size, end
	return why, grown
}

// writable reports whether the directory has room for a file.
func (s *Server) writable() bool {
	f, err := os.CreateTemp(s.config.Dir, ".probe-*")
	if err != nil {
		return false
	}
	_, err = f.Write(make([]byte, probeSize))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())) == nil
}

func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// InProcessConn implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) { return s.current().InProcessConn() }

// probe reports the address of a setting, if it is set, that cannot be listened on. The server itself
// would not say which setting that is.
func probe(setting, address string) error {
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%s: the journal's server cannot listen: %w: choose another address, or end the program that uses it", setting, err)
	}
	return l.Close()
}

// options returns the server's options. The configuration was checked, see package config.
func (c ServerConfig) options() *server.Options {
	o := &server.Options{
		ServerName: c.Node, NoSigs: true, Authorization: c.Token, AuthTimeout: loginTimeout.Seconds(),
		JetStream: true, StoreDir: c.Dir, SyncAlways: true, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: maxSize,
	}
	if c.TLS != nil {
		o.TLSConfig, o.TLS, o.TLSTimeout = c.TLS.Clone(), true, loginTimeout.Seconds()
	}
	switch {
	case c.Clients != "":
		o.Host, o.Port = split(c.Clients)
	case len(c.Peers) == 1:
		o.DontListen = true
	default: // the server reaches no other member before it listens for clients
		o.Host, o.Port = "127.0.0.1", server.RANDOM_PORT
	}
	if len(c.Peers) > 1 {
		c.routes(o)
	}
	return o
}

// routes sets how the members reach each other.
func (c ServerConfig) routes(o *server.Options) {
	o.Cluster = server.ClusterOpts{
		Name: c.Cluster, Username: user, Password: c.Token, Advertise: c.Peers[c.Node], AuthTimeout: loginTimeout.Seconds(),
		NoAdvertise:  true,                            // clients are not told the members' addresses, which may be loopback ones
		PingInterval: 2 * time.Second, MaxPingsOut: 2, // a member that does not answer for 4 to 6 s is cut off, see package doc
	}
	o.Cluster.Host, o.Cluster.Port = split(c.Listen)
	if c.TLS != nil {
		t := c.TLS.Clone()
		t.ClientAuth = tls.RequireAndVerifyClientCert
		if t.ClientCAs == nil {
			t.ClientCAs = t.RootCAs
		}
		o.Cluster.TLSConfig, o.Cluster.TLSTimeout = t, loginTimeout.Seconds()
	}
	for _, node := range slices.Sorted(maps.Keys(c.Peers)) {
		if node != c.Node {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", User: url.UserPassword(user, c.Token), Host: c.Peers[node]})
		}
	}
}

// split returns the parts of an address, which was checked.
func split(address string) (host string, port int) {
	host, text, _ := net.SplitHostPort(address)
	port, _ = strconv.Atoi(text)
	return host, port
}

// Connect returns a connection to the server within the process, for Open.
func (s *Server) Connect() (*nats.Conn, error) {
	return nats.Connect("", nats.InProcessServer(s), nats.Token(s.config.Token), nats.Name("freshet "+s.config.Node),
		nats.Timeout(loginTimeout), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ReconnectBufSize(-1))
}

// Replicas returns how many members keep each entry, for Config: all of them, or as many as JetStream allows.
func (s *Server) Replicas() int { return min(len(s.config.Peers), 5) }

// Members returns how many other members the server is connected to.
func (s *Server) Members() int { return s.current().NumRemotes() }

// Close shuts the server down and waits for that.
func (s *Server) Close() error {
	s.stop()
	s.done.Wait()
	s.log.stops.Store(true)
	s.current().Shutdown()
	s.current().WaitForShutdown()
	return nil
}

// A logger passes the server's warnings and errors on as warnings, and remembers why the server cannot start.
// Most are about other members, which try to connect several times a second while one is down or has a wrong
// setting. A message that differs from one of the last minute only in numbers is for debugging.
type logger struct {
	to    *slog.Logger
	fatal atomic.Pointer[string]
	stops atomic.Bool // what the server says while it stops is for debugging

	mu   sync.Mutex
	said map[string]time.Time // by message without numbers: when it was logged
}

const (
	sayEvery = time.Minute
	mostSaid = 100 // messages that are remembered: others choose names in certificates
)

// numbers are those of ports, connections and attempts.
var numbers = regexp.MustCompile(`(:|attempt )[0-9]+`)

func (l *logger) Noticef(string, ...any) {}
func (l *logger) Debugf(string, ...any)  {}
func (l *logger) Tracef(string, ...any)  {}

func (l *logger) Warnf(format string, v ...any)  { l.log(fmt.Sprintf(format, v...)) }
func (l *logger) Errorf(format string, v ...any) { l.log(fmt.Sprintf(format, v...)) }

func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log(text)
	l.fatal.Store(&text)
}

func (l *logger) log(text string) {
	level := slog.LevelWarn
	if l.stops.Load() || l.repeats(text) {
		level = slog.LevelDebug
	}
	l.to.Log(context.Background(), level, "journal: "+text)
}

// repeats reports whether the same message was logged within sayEvery.
func (l *logger) repeats(text string) bool {
	text = numbers.ReplaceAllString(text, "")
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, said := l.said[text]; said && time.Since(t) < sayEvery {
		return true
	}
	if len(l.said) >= mostSaid {
		clear(l.said)
	}
	l.said[text] = time.Now()
	return false
}
