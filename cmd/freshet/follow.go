package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web"
	"github.com/freshet/freshet/web/api"
)

// A follower watches what one link names, at a running server or at one of its own.
type follower struct {
	*remote
	text                       string // of the link
	link                       watch.Link
	name                       string // of the endpoint
	url, listen, data, contact string
	insists                    bool // the contact was given on the command line
	labels, properties, set    []string
}

var followRow = row{use: "follow LINK", short: "Watch a link or an entity and print its changes, with a server of its own if none runs",
	long: `Watches what a link is about and prints its changes in words until it is interrupted. LINK
is the page of an entity, such as one of Wikidata, an IRI, a link to a query at
query.wikidata.org, QLever, YASGUI or an endpoint, or a file with a query (- reads the
standard input), whose decorators “#+ endpoint:” and “#+ summary:” count. If no server
runs, it starts one, with the endpoint of the link and the pack for it. Public endpoints need a contact: give --contact, ` +
		`or set FRESHET_CONTACT.
The first result comes at once, as far as the endpoint's budget allows. A server with
several endpoints asks which of them knows the entity, unless --endpoint names one.
The server keeps its data in a temporary directory unless --data names one; with
--data, the next start continues the history.`,
	example: "freshet follow https://www.wikidata.org/entity/Q42 --contact mailto:you@example.org\nfreshet follow " +
		"http://dbpedia.org/resource/Ulm --labels de,en --data ulm\nfreshet follow cats.rq",
	run: followLink, flags: []option{
		{name: "property", value: texts(nil), usage: "only this property; may be given several times"},
		{name: "labels", value: commaTexts(nil), usage: "languages of labels, best first (default en)"},
		{name: "endpoint", value: "", usage: "endpoint of the server to ask (default: the one of the site, else the only one that " +
			"knows the entity)"},
		{name: "url", value: "", usage: "SPARQL endpoint to ask in place of the pack's"},
		{name: "set", value: texts(nil), usage: "setting of a new endpoint as KEY=VALUE, e.g. budget=5s; may be given several times"},
		{name: "contact", value: variable(contact), usage: "mail or web address for the operators of public endpoints"},
		{name: "listen", value: "", usage: "start a server of its own on this address, even if another one runs"},
		{name: "data", value: "", usage: "directory of its own server's store (default: a temporary one, removed at the end)"},
	}}

func followLink(a *remote, c *cobra.Command, args []string) (err error) {
	f := follower{remote: a, name: textOf(c, "endpoint"), url: textOf(c, "url"), listen: textOf(c, "listen"), data: textOf(c, "data"),
		contact: textOf(c, "contact"), insists: c.Flag("contact").Changed,
		labels: listOf(c, "labels"), properties: listOf(c, "property"), set: listOf(c, "set")}
	if f.text, err = f.read(args[0]); err != nil {
		return err
	}
	if f.link, err = web.ReadLink(f.text, watch.Watch{Labels: f.labels, Properties: f.properties}); err != nil {
		return cli.WithCode(cli.ExitUsage, err)
	}
	return f.run(c.Context())
}

// read returns the text of a file or of the standard input, and any other argument as it is.
func (f follower) read(arg string) (string, error) {
	info, err := os.Stat(arg)
	switch name := strings.ToLower(arg); {
	case arg == "-", err == nil && info.Mode().IsRegular():
		return f.readText(arg)
	case !strings.Contains(name, "://") && (strings.HasSuffix(name, ".rq") || strings.HasSuffix(name, ".sparql")):
		return "", cli.UsageErrorf("there is no file %s", arg)
	}
	return arg, nil
}

func (f follower) run(ctx context.Context) error {
	if f.listen != "" {
		return f.alone(ctx)
	}
	err, named := f.do(ctx, http.MethodGet, "/v1/endpoints", nil, nil), namesServer(f.remote)
	if e, failed := errors.AsType[*cli.ExitError](err); failed && e.Code == cli.ExitUnreachable && !named {
		f.listen = "127.0.0.1:8080"
		return f.alone(ctx)
	}
	if err == nil {
		err = f.follow(ctx)
	}
	switch {
	case !noContact(err):
		return err
	case named || f.contact == "":
		return fmt.Errorf("%w\nor follow with a server of its own: --listen 127.0.0.1:0 --contact mailto:you@example.org", err)
	}
	fmt.Fprintf(f.w.Stderr, "the server at %s has no contact, so this command starts a server of its own\n", f.base())
	f.listen = "127.0.0.1:0"
	return f.alone(ctx)
}

// noContact reports whether a server refused an endpoint because it has no contact.
func noContact(err error) bool {
	p, ok := errors.AsType[*problem](err)
	return ok && strings.Contains(p.Error(), endpoint.ErrNoContact.Error())
}

// follow watches at a running server, to which it adds the endpoint of the pack.
func (f follower) follow(ctx context.Context) error {
	request := map[string]any{"link": f.text, "labels": f.labels, "properties": f.properties}
	if f.insists && f.listen == "" {
		fmt.Fprintf(f.w.Stderr, "following at the server that runs at %s, which gives its own contact: --contact is for a server "+
			"of this command\n", f.base())
	}
	if f.data != "" && f.listen == "" {
		fmt.Fprintf(f.w.Stderr, "following at the server that runs at %s, which keeps its own data: --data is for a server of this command\n",
			f.base())
	}
	if f.name != "" {
		request["endpoint"] = f.name
	}
	p, packed := f.pack()
	if !packed && f.url == "" { // the server knows its endpoints
		f.noteSet("the server knows the endpoint")
		return f.followWatch(ctx, request)
	}
	body, err := f.endpoint()
	if err != nil {
		return err
	}
	var all struct{ Endpoints []api.Endpoint }
	if err := f.do(ctx, http.MethodGet, "/v1/endpoints", nil, &all); err != nil {
		return err
	}
	name := fmt.Sprint(body["name"])
	at := slices.IndexFunc(all.Endpoints, func(e api.Endpoint) bool { return e.Name == name })
	if at < 0 && f.name == "" && f.url == "" {
		at = slices.IndexFunc(all.Endpoints, func(e api.Endpoint) bool { return p.Has(e.URL) })
	}
	var known api.Endpoint
	if at >= 0 {
		known = all.Endpoints[at]
		name = known.Name
		f.noteSet("the server has the endpoint " + name)
	} else {
		fmt.Fprintf(f.w.Stderr, "adding the endpoint %s\n", name)
		if err := f.do(ctx, http.MethodPost, "/v1/endpoints", body, nil); err != nil {
			return err
		}
	}
	if known.URL != "" && f.url != "" && known.URL != f.url && known.URL != registry.MaskedURL(f.url) {
		return cli.UsageErrorf("the endpoint %s of the server has the URL %s, not %s: leave out --url, or add an endpoint with "+
			"freshet endpoint add and name it with freshet watch-entity --endpoint NAME --follow", name, known.URL, f.url)
	}
	request["endpoint"] = name
	return f.followWatch(ctx, request)
}

// noteSet says that settings for a new endpoint have no effect, and why.
func (f follower) noteSet(why string) {
	if len(f.set) > 0 {
		fmt.Fprintf(f.w.Stderr, "%s: --set is for a new one\n", why)
	}
}

// endpoint returns the settings of the endpoint that knows the entity.
func (f follower) endpoint() (map[string]any, error) {
	given, err := settingsBody(f.set)
	if err != nil {
		return nil, err
	}
	if f.url != "" {
		given["url"] = f.url
	}
	if p, ok := f.pack(); ok {
		return p.Values(given), nil
	}
	if f.url == "" {
		return nil, cli.UsageErrorf("no server runs at %s, and no pack knows which endpoint has %s: name one with --url", f.base(),
			cmp.Or(f.link.IRI, "the data of this query"))
	}
	given["name"] = cmp.Or(f.name, f.link.EndpointName(), "follow")
	return given, nil
}

// pack returns the pack for the endpoint.
func (f follower) pack() (pack.Pack, bool) {
	if f.name != "" {
		p, err := pack.Find(f.name)
		return p, err == nil
	}
	return pack.Of(f.link.Site, f.link.Endpoint)
}

// atOwn returns f for a server of its own, which asks the endpoint that the link names.
func (f follower) atOwn() follower {
	if _, packed := f.pack(); !packed {
		f.url = cmp.Or(f.url, f.link.Endpoint)
	}
	return f
}

// alone runs a server for the time of the command and follows at it.
func (f follower) alone(ctx context.Context) error {
	f = f.atOwn()
	ctx, stop := cli.UntilHangup(ctx)
	defer stop()
	srv, done, err := f.start(ctx)
	if err != nil {
		return err
	}
	defer done()
	ready := make(chan struct{})
	srv.WhenReady = func(context.Context) { close(ready) }
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	fmt.Fprintf(f.w.Stderr, "Freshet %s serving at %s until this command ends\n", cli.Version(), srv.URL())
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	own := *f.remote
	own.server, own.tokenFile = srv.URL(), os.DevNull
	f.remote = &own
	if err = f.follow(ctx); noContact(err) { // its own server reads no configuration file
		err = cli.UsageErrorf("%v: name one with --contact mailto:you@example.org", endpoint.ErrNoContact)
	}
	if errors.Is(err, syscall.EPIPE) { // the reader of the output has gone
		err = nil
	}
	stop()
	return errors.Join(err, <-ended)
}

// start opens a server with the endpoint of the site.
func (f follower) start(ctx context.Context) (srv *server.Server, done func(), err error) {
	c := config.Default()
	c.Listen, c.Data, c.Contact, c.Sources = f.listen, f.data, f.contact, config.Sources{"listen": config.FromFlag}
	done = func() {}
	if c.Data == "" {
		if c.Data, err = os.MkdirTemp("", "freshet-follow-"); err != nil {
			return nil, nil, err
		}
		done = func() { os.RemoveAll(c.Data) }
	}
	if _, err = f.endpoint(); err == nil {
		err = c.Check()
	}
	if err == nil && c.Safe() != nil {
		err = cli.UsageErrorf("--listen: the server of this command has no tokens: choose an address of this machine only, such as 127.0.0.1:0")
	}
	if err == nil {
		srv, err = server.New(ctx, &c, config.Log{Level: "error", Format: "auto"}.Logger(f.w))
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	remove := done
	return srv, func() { srv.Close(); remove() }, nil
}
