package watch

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/freshet/freshet/registry/sparql"
)

// A Link is what a copied link, a file or a text asks to watch, as far as it says so itself:
// nothing is fetched to read it.
type Link struct {
	Watch              // an entity, or a query of kind ByQuery
	Endpoint  string   // the URL of the endpoint that it names, "" for none
	Site      string   // the name of the endpoint and the pack of the site it is about, "" for none
	Graphs    []string // default graphs of a query
	NamedOnes []string // named graphs of a query
}

// maxLink is the length of a link whose query has sparql.MaxText bytes, all escaped.
const maxLink = 3*sparql.MaxText + 10_000

// ParseLink reads a link, an IRI, or a query with or without the decorators of grlc. The error is a
// *registry.Problem about the field link, with the way out.
func ParseLink(text string) (Link, error) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	switch {
	case text == "":
		return Link{}, bad("there is nothing to watch: paste a link, an IRI or a query")
	case len(text) > maxLink:
		return Link{}, bad("the link is %d bytes long, more than the %d that the longest query needs", len(text), maxLink)
	case !utf8.ValidString(text):
		return Link{}, bad("the text is not UTF-8: copy the link from the address bar of a browser, or save the file as UTF-8")
	case !withScheme.MatchString(text) && !bareHost.MatchString(text) && !strings.HasPrefix(text, "<") && strings.ContainsAny(text,
		" \t\r\n{"):
		return ofQuery(Link{}, text)
	}
	return ofAddress(text)
}

var (
	withScheme = regexp.MustCompile(`^(?i:[a-z][a-z0-9+.-]*://|javascript:|data:)`)
	bareHost   = regexp.MustCompile(`^(?is)(?:[a-z0-9-]+\.)+[a-z]{2,}(?:[/#?].*)?$`)
	noData     = regexp.MustCompile(`^(?i)(?:javascript|data|file|blob|about|view-source|ftp|mailto):`)

	queryService = regexp.MustCompile(`^(?:query|query-main|query-scholarly)\.wikidata\.org$|^commons-query\.wikimedia\.org$`)
	editorPage   = regexp.MustCompile(`^/(?:index\.html|embed\.html)?$`)
	qlever       = regexp.MustCompile(`^qlever\.[a-z0-9.-]+$`)
	qleverPage   = regexp.MustCompile(`^/([A-Za-z0-9_-]+)(?:/([A-Za-z0-9]*))?/?$`)
	shortener    = regexp.MustCompile(`^(?:w\.wiki|(?:api\.)?triplydb\.com/s|(?:www\.)?yasgui\.(?:triply\.cc|org)/short|` +
		`tinyurl\.com|bit\.ly|t\.co|is\.gd|goo\.gl)/.`)
	yasgui    = regexp.MustCompile(`^(?:www\.)?yasgui\.(?:triply\.cc|org)$`)
	wikipedia = regexp.MustCompile(`^(?:[a-z-]+\.)?(?:m\.)?wikipedia\.org$`)
)

// ofAddress reads a link or an IRI.
func ofAddress(text string) (Link, error) {
	address := text
	if !withScheme.MatchString(text) && bareHost.MatchString(text) {
		address = "https://" + text // as browsers show it
	}
	if EntityIRI(address) != address {
		text = address
	}
	page, fragment, _ := strings.Cut(address, "#")
	u, err := url.Parse(page)
	switch {
	case noData.MatchString(text):
		return Link{}, bad("a link begins with https:// or http://, and this one with %q: copy the address of a page",
			strings.ToLower(text[:strings.IndexByte(text, ':')+1]))
	case err == nil && u.User != nil:
		return Link{}, bad("the link holds a user name or a password: copy it without them, and let an admin give them to the " +
			"endpoint in its setting auth")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return ofEntity(text)
	}
	host, params := strings.ToLower(u.Hostname()), hasQuery(u.RawQuery)
	switch {
	case shortener.MatchString(host + u.Path):
		return Link{}, unresolved(host)
	case queryService.MatchString(host) && strings.HasPrefix(u.Path, "/querybuilder"):
		return Link{}, bad("the query builder keeps no SPARQL in its link: press “Show query in the Query Service” there, and " +
			"copy the address of that page")
	case queryService.MatchString(host) && editorPage.MatchString(u.Path):
		return ofFragment(u, fragment)
	case qlever.MatchString(host) && !strings.HasPrefix(u.Path, "/api/"):
		return ofQLever(u, params)
	case hasQuery(fragment):
		return ofParams(fragment, u, "")
	case params:
		service := *u
		service.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), ofProtocol), "&")
		return ofParams(u.RawQuery, u, service.String())
	case yasgui.MatchString(host):
		return Link{}, withoutQuery()
	case strings.HasSuffix(u.Path, ".rq") || strings.HasSuffix(u.Path, ".sparql"):
		return Link{}, bad("this server fetches no files: open the link in a browser, copy the text, and paste that")
	case wikipedia.MatchString(host):
		return Link{}, bad("a page of Wikipedia has no data of its own: follow “Wikidata item” in its menu, and copy the address of that page")
	}
	return ofEntity(text)
}

// unresolved is the error of links whose target only another server knows.
func unresolved(host string) error {
	return bad("only %s knows where this short link leads, and this server only asks its endpoints: "+
		"open it in a browser and copy the address that it becomes", host)
}

// ofFragment reads a link of the query services of Wikimedia, which have the query after #.
func ofFragment(u *url.URL, fragment string) (Link, error) {
	text, err := url.PathUnescape(fragment)
	if err != nil || !utf8.ValidString(text) {
		return Link{}, broken()
	}
	if strings.TrimSpace(text) == "" {
		return Link{}, bad("the link opens the editor without a query: run the query there, and copy the address that the browser shows then")
	}
	host := strings.ToLower(u.Hostname())
	l := Link{Endpoint: "https://" + host + "/sparql"}
	if host == "query.wikidata.org" {
		l.Site = "wikidata"
	}
	return ofQuery(l, text)
}

// ofQLever reads a link of the interface of QLever, whose path names the dataset.
func ofQLever(u *url.URL, params bool) (Link, error) {
	m := qleverPage.FindStringSubmatch(u.Path)
	switch {
	case m != nil && params:
		return ofParams(u.RawQuery, u, u.Scheme+"://"+u.Host+"/api/"+m[1])
	case m != nil && m[2] != "":
		return Link{}, unresolved(strings.ToLower(u.Hostname()))
	}
	return Link{}, bad("the link names no query: press “Share” at QLever, and copy the link that has ?query= in it")
}

// ofParams reads the parameters of YASGUI, or of the SPARQL protocol for a service.
func ofParams(text string, page *url.URL, service string) (Link, error) {
	p, err := url.ParseQuery(text)
	query := cmp.Or(p.Get("query"), p.Get("qtxt"))
	if err != nil || !utf8.ValidString(query) {
		return Link{}, broken()
	}
	l := Link{Endpoint: service, Graphs: slices.Concat(p["default-graph-uri"], p["defaultGraph"]),
		NamedOnes: slices.Concat(p["named-graph-uri"], p["namedGraph"])}
	for _, list := range []*[]string{&l.Graphs, &l.NamedOnes} {
		*list = slices.DeleteFunc(*list, func(graph string) bool { return graph == "" })
	}
	if named := p.Get("endpoint"); named != "" {
		to, err := page.Parse(named)
		switch {
		case err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http":
			return Link{}, bad("the link names the endpoint %q, which is no address of the web: paste the query alone, and choose an "+
				"endpoint", shortened(named))
		case to.User != nil:
			return Link{}, bad("the link holds a user name or a password: copy it without them, and let an admin give them to the " +
				"endpoint in its setting auth")
		}
		l.Endpoint = to.String()
	}
	if strings.TrimSpace(query) == "" {
		return Link{}, withoutQuery()
	}
	return ofQuery(l, query)
}

func withoutQuery() error {
	return bad("the link has no query: run it in the editor first, and copy the link again")
}

// protocol names the parameters of the SPARQL protocol, and those by which forms such as Virtuoso's say how to
// answer. All others are those of the endpoint.
var protocol = regexp.MustCompile(`^(?i:query|qtxt|(?:default|named)-graph-uri|endpoint|format|output|results|timeout|maxrows|debug|run|` +
	`should-sponge|signal_void|signal_unconnected|CXML_redir_for_(?:subjs|hrefs)|log_debug_info|save|fname|explain|exec)$`)

// ofProtocol reports whether a parameter as it is written in a URL is none of the endpoint's own.
func ofProtocol(parameter string) bool {
	return parameter == "" || protocol.MatchString(parameterName(parameter))
}

func parameterName(parameter string) string {
	name, _, _ := strings.Cut(parameter, "=")
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	return name
}

// hasQuery reports whether one of the parameters of a link is a query.
func hasQuery(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "&"), func(parameter string) bool {
		name := parameterName(parameter)
		return name == "query" || name == "qtxt"
	})
}

func broken() error {
	return bad("the link has an escape that is cut or broken, such as %%E or %%zz: copy it again, from its beginning to its end")
}

// ofEntity reads an IRI or the address of a page about an entity.
func ofEntity(text string) (Link, error) {
	if strings.ContainsFunc(strings.Trim(text, "<>"), func(r rune) bool { return r <= ' ' }) {
		return Link{}, bad("an IRI has no spaces: write %%20 in place of each, or paste it alone")
	}
	iri := EntityIRI(text)
	if err := checkIRI("link", iri); err != nil {
		return Link{}, err
	}
	return Link{Watch: Watch{IRI: iri}, Site: SiteOf(iri).Name}, checkEntity("link", iri)
}

// ofQuery reads the text of a query into a link.
func ofQuery(l Link, text string) (Link, error) {
	named, parameters := grlc(text)
	if named != "" && l.Endpoint == "" {
		l.Endpoint = named
		if u, err := url.Parse(named); err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
			return Link{}, bad("the line “#+ endpoint:” names no address of the web without a user: correct it, or leave it out and " +
				"choose an endpoint")
		}
	}
	declared := sparql.Declare(text, nil)
	a, err := sparql.Analyse(declared)
	switch {
	case err != nil:
		return Link{}, bad("this is neither a link nor a query that can be watched: %v", err)
	case parameters != "":
		return Link{}, bad("the query has the parameter %s, which only grlc fills in: write a value in its place", parameters)
	}
	if l.Site == "" && l.Endpoint == "" {
		l.Site = siteOf(a.Constants)
	}
	l.Watch = Watch{Kind: ByQuery, Text: text}
	return l, nil
}

// vocabulary matches the IRIs of sites that the data of others has as well.
var vocabulary = regexp.MustCompile(`^http://(?:dbpedia\.org/(?:ontology|property|class|datatype)|purl\.uniprot\.org/core)/`)

// siteOf returns the name of the one site that has all known entities, "" if there is none.
func siteOf(constants []string) (name string) {
	for _, iri := range constants {
		if vocabulary.MatchString(iri) {
			continue
		}
		of := SiteOf(labelled(iri)).Name
		if of != "" && name != "" && of != name {
			return ""
		}
		name = cmp.Or(name, of)
	}
	return name
}

// Decorators of grlc are comments at the beginning of lines before a query, of which "endpoint" and "summary"
// count. Its parameters are variables that begin with an underscore.
var (
	decorator     = regexp.MustCompile(`(?m)^#\+[ \t]*([a-z_]+):[ \t]*(.*?)[ \t\r]*$`)
	grlcParameter = regexp.MustCompile(`^[?$]__?[A-Za-z][A-Za-z0-9_]*$`)
	anyTitle      = regexp.MustCompile(`(?m)^#[ \t]*title:[ \t]*(.+?)[ \t\r]*$`)
	firstComment  = regexp.MustCompile(`^\s*#[ \t]*([^+!\s#].*?)[ \t\r]*(?:\n|$)`)
	display       = regexp.MustCompile(`^[A-Za-z]+:`) // of the interface, such as defaultView:Map
)

// decorators returns those of a query as pairs of a name and a value, and the query's tokens.
func decorators(text string) (list [][2]string, tokens []sparql.Token) {
	tokens, _ = sparql.Tokens(text) // of a broken query, those before the error
	if len(tokens) > 0 {
		text = text[:tokens[0].Pos]
	}
	for _, m := range decorator.FindAllStringSubmatch(text, 100) {
		list = append(list, [2]string{m[1], m[2]})
	}
	return list, tokens
}

// grlc returns the endpoint of a decorated query, and a parameter of it that has no value.
func grlc(text string) (endpoint, parameter string) {
	decorated, tokens := decorators(text)
	for _, d := range decorated {
		if d[0] == "endpoint" {
			endpoint = strings.Trim(d[1], `"'<>`)
		}
	}
	isParameter := func(t sparql.Token) bool { return t.Kind == sparql.Variable && grlcParameter.MatchString(t.Text) }
	if i := slices.IndexFunc(tokens, isParameter); i >= 0 && len(decorated) > 0 {
		parameter = tokens[i].Text
	}
	return endpoint, parameter
}

// TitleOf returns what the comments of a query call it, "" if they do not.
func TitleOf(text string) string {
	decorated, tokens := decorators(text)
	for _, d := range decorated {
		if d[0] == "summary" && d[1] != "" {
			return shortText(strings.Trim(d[1], `"'`))
		}
	}
	if len(tokens) > 0 { // a comment or a text further down may be about anything
		text = text[:tokens[0].Pos]
	}
	if m := anyTitle.FindStringSubmatch(text); m != nil {
		return shortText(m[1])
	}
	if m := firstComment.FindStringSubmatch(text); m != nil && !display.MatchString(m[1]) {
		return shortText(m[1])
	}
	return ""
}

// Name proposes a name for the watch from its title. It is "" if there is none.
func (w Watch) Name() string {
	return hyphenated(strings.ToLower(TitleOf(w.Text)), func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' })
}

// RuleName proposes a name for an alert rule on the watch, from what it watches.
func (w Watch) RuleName(names Namer) string {
	return hyphenated(w.Describe(names), func(r rune) bool { return unicode.In(r, unicode.L, unicode.M, unicode.Nd) })
}

// hyphenated returns the beginning of a text with a hyphen for what is not to be kept.
func hyphenated(text string, keep func(rune) bool) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case keep(r):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 60 {
			break
		}
	}
	return strings.Trim(b.String(), "-")
}

// EndpointName proposes a legal name for the endpoint that the link names: that of the site, else its host. A
// part of its path, or a number, makes it differ from the names that are taken.
func (l Link) EndpointName(taken ...string) string {
	u, err := url.Parse(l.Endpoint)
	if l.Site != "" || err != nil || u.Host == "" {
		return l.Site
	}
	name, parts := u.Hostname(), strings.Split(u.Path, "/")
	parts = slices.DeleteFunc(parts, func(part string) bool { return slices.Contains([]string{"", "api", "query", "sparql"}, part) })
	if strings.HasPrefix(u.Path, "/api/") && qlever.MatchString(name) {
		name, parts = "qlever-"+strings.Join(parts, "-"), nil
	}
	name = cmp.Or(legalName(name), "endpoint")
	if more := legalName(name + "-" + strings.Join(parts, "-")); slices.Contains(taken, name) && len(parts) > 0 {
		name = more
	}
	free := name
	for i := 2; slices.Contains(taken, free); i++ {
		free = name + "-" + strconv.Itoa(i)
	}
	return free
}

// legalName replaces what names of endpoints do not have.
func legalName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(name[:min(len(name), 58)], "-._")
}

func bad(format string, a ...any) error { return wrong("link", format, a...) }
