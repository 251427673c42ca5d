package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// A remote is a running server that a command talks to.
type remote struct {
	server    string
	tokenFile string
	asJSON    bool
	w         *cli.Env
}

// flags adds the flags of all commands that talk to a server.
func (a *remote) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&a.server, "server", "", "server to talk to (default FRESHET_SERVER, else http://127.0.0.1:8080)")
	f.StringVar(&a.tokenFile, "token-file", "", "file that holds the token (default: FRESHET_TOKEN, FRESHET_TOKEN_FILE)")
	f.BoolVar(&a.asJSON, "json", false, "print JSON, one object a line for lists and streams")
}

func (a *remote) base() string {
	for _, s := range []string{a.server, a.w.Getenv("FRESHET_SERVER"), cli.UsualServer} {
		if s != "" {
			return strings.TrimRight(s, "/")
		}
	}
	return ""
}

func (a *remote) token() (string, error) {
	if a.tokenFile != "" {
		b, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return "", cli.UsageErrorf("--token-file: %v", err)
		}
		return strings.TrimSpace(string(b)), nil
	}
	return cli.SecretFrom(a.w.Getenv, "FRESHET_TOKEN")
}

// A problem is an error that the server answers with.
type problem struct{ api.Problem }

// Error returns the text of the problem. It adds the members of the request that the
// problem is about, unless the text names them.
func (p *problem) Error() string {
	text := p.Title
	switch {
	case p.Detail != "" && text != "" && len(p.Detail) >= len(text) && strings.EqualFold(p.Detail[:len(text)], text): // it says the title
		text = p.Detail
	case p.Detail != "":
		text += ": " + p.Detail
	}
	for _, e := range p.Errors {
		name := strings.ReplaceAll(strings.TrimPrefix(e.Pointer, "/"), "/", ".")
		switch {
		case name == "" || strings.Contains(text, name) && strings.Contains(text, e.Detail):
		case strings.Contains(text, e.Detail):
			text += fmt.Sprintf(" (%s)", name)
		default:
			text += fmt.Sprintf("\n%s: %s", name, e.Detail)
		}
	}
	return text
}

// do sends one request and decodes a JSON answer into out, unless out is nil.
func (a *remote) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	resp, err := a.send(ctx, method, path, nil, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if out == nil {
		out = new(json.RawMessage) // a page of another program is no answer
	}
	return a.read(resp, out)
}

// read decodes a JSON answer.
func (a *remote) read(resp *http.Response, out any) error {
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("%s did not answer with JSON: is it a Freshet server? (%w)", a.base(), err)
	}
	return nil
}

// httpClient follows no redirects: these would turn other requests into GET, which changes nothing.
var httpClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// send returns the response of a successful request, whose body is JSON. Other responses
// are errors with their exit code.
func (a *remote) send(ctx context.Context, method, path string, headers http.Header, body io.Reader) (*http.Response, error) {
	u, err := url.Parse(a.base())
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.UsageErrorf("%q is not the URL of a server, such as http://127.0.0.1:8080", a.base())
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base()+path, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, headers)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "freshet/"+cli.Version())
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, cli.UsageErrorf("the token cannot be sent: it is one word of letters, digits, hyphens and underscores, alone in its file")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, a.unreachable(err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	if to, err := resp.Location(); err == nil && resp.StatusCode < 400 {
		return nil, a.redirected(resp.Status, to.String(), path)
	}
	return nil, a.refusal(resp)
}

// redirected returns the error of a request for a path that is answered with another address.
func (a *remote) redirected(status, to, path string) error {
	if server, same := strings.CutSuffix(to, path); same {
		return fmt.Errorf("%s answers %s to %s: name that with --server", a.base(), status, server)
	}
	return fmt.Errorf("%s answers %s to %s: is it a Freshet server? Name another one with --server", a.base(), status, to)
}

// unreachable returns the error of a request without an answer.
func (a *remote) unreachable(err error) error {
	hint := "start a server with 'freshet serve', or name another one with --server"
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		hint = "a certificate that this machine does not know is trusted when SSL_CERT_FILE names its file"
	}
	if strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		hint = "the server speaks HTTP without TLS: write http:// in place of https://"
	}
	return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("no answer from %s: %w\n%s", a.base(), errors.Unwrap(err), hint))
}

func (a *remote) refusal(resp *http.Response) error {
	p := problem{api.Problem{Status: resp.StatusCode, Title: resp.Status}}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if json.Unmarshal(b, &p) != nil { // it is no problem document
		if resp.StatusCode == http.StatusNotFound {
			return fmt.Errorf("%s answers %s: is it a Freshet server? Name another one with --server", a.base(), resp.Status)
		}
		p.Detail = saidBy(resp, string(b))
	}
	if resp.StatusCode == http.StatusUnauthorized {
		p.Detail = wantsToken(a, p.Detail)
	}
	code := cli.ExitFailure
	switch resp.StatusCode {
	case http.StatusNotFound:
		code = cli.ExitNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		code = cli.ExitAuth
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		code = cli.ExitUsage
	}
	switch p.Type {
	case "/problems/" + string(registry.KindUnknownEndpoint), "/problems/" + string(registry.KindUnknownQuery):
		code = cli.ExitNotFound
	}
	return cli.WithCode(code, &p)
}

// saidBy returns what an answer says that is no problem document: a short text, or that the server speaks TLS.
func saidBy(resp *http.Response, body string) string {
	for _, said := range []string{"HTTP request to an HTTPS server", "plain HTTP request was sent to HTTPS port"} { // by Go, by nginx
		if strings.Contains(body, said) {
			return "the server speaks TLS: write https:// in place of http://"
		}
	}
	text := strings.TrimSpace(body)
	if len(text) > 200 || strings.Contains(text, "\n") || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		return ""
	}
	return text
}

// wantsToken says how a command gets a token, in place of how HTTP does.
func wantsToken(a *remote, detail string) string {
	if !strings.Contains(detail, "Authorization") {
		return detail
	}
	if token, err := a.token(); err == nil && token == "" {
		return "this server wants a token: set FRESHET_TOKEN, or name the file that holds it with --token-file"
	}
	return "the server does not know the token from FRESHET_TOKEN or --token-file"
}

// each calls visit for every member of the pages of a list.
func each[T any](ctx context.Context, a *remote, path, member string, visit func(T) error) error {
	for path != "" {
		resp, err := a.send(ctx, http.MethodGet, path, nil, nil)
		if err != nil {
			return err
		}
		var page map[string]json.RawMessage
		err = a.read(resp, &page)
		resp.Body.Close()
		if err != nil {
			return err
		}
		if page[member] == nil {
			return fmt.Errorf("%s did not answer with a list of %s: is it a Freshet server?", a.base(), member)
		}
		var items []T
		if err := json.Unmarshal(page[member], &items); err != nil {
			return err
		}
		for _, it := range items {
			if err := visit(it); err == errEnough {
				return nil
			} else if err != nil {
				return err
			}
		}
		path = nextPage(resp)
	}
	return nil
}

// nextPage returns the path of the header Link: <…>; rel="next".
func nextPage(resp *http.Response) string {
	for _, l := range resp.Header.Values("Link") {
		for part := range strings.SplitSeq(l, ",") {
			target, params, ok := strings.Cut(part, ">")
			if !ok || !strings.Contains(params, `rel="next"`) {
				continue
			}
			u, err := url.Parse(strings.TrimLeft(target, " <"))
			if err == nil {
				return u.RequestURI()
			}
		}
	}
	return ""
}
