package sparql

import "strings"

// Besides SERVICE, Virtuoso has other features with effects outside of the store: a
// crawler, which pragmas and options of FROM start, and functions that fetch, send,
// access files or run SQL. Virtuoso should restrict their use, but not every
// installation does. The lists contain the features that its documentation shows;
// there are more.
var (
	crawling = []string{"get:", "input:grab"}
	acting   = []string{
		"bif:http_", "bif:soap_", "bif:smtp_", "bif:pop3_", "bif:imap_", "bif:nntp_", "bif:ftp_", "bif:ldap_",
		"bif:exec", "bif:rexec", "bif:rstmtexec", "bif:file_", "bif:string_to_file", "bif:sys_", "bif:system", "bif:run_executable",
		"bif:registry_set", "bif:log_enable", "bif:set_user_id", "bif:shutdown", "bif:backup", "bif:dav_", "bif:xml_uri_get",
		"sql:rdf_load", "sql:rdf_sponge", "sql:sparql_", "sql:ttlp", "sql:exec", "sql:http_", "sql:dav_",
	}
)

// crawls reports whether a pragma or option with this name starts the crawler.
func crawls(name string) bool { return hasPrefixFold(name, crawling) }

// sideEffect records the name or IRI at i if it makes the endpoint act beyond
// the query.
func (x *analyser) sideEffect(i int) {
	t := x.Tokens[i]
	name := strings.Trim(t.Text, "<>")
	if t.Kind == Name && crawls(name) || x.precedesBracket(i) && hasPrefixFold(name, acting) {
		x.reaches.add(t.Text, t.Pos)
	}
}

func hasPrefixFold(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if len(name) >= len(p) && strings.EqualFold(name[:len(p)], p) {
			return true
		}
	}
	return false
}
