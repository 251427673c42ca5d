package web

import (
	"net/http"
	"strconv"
	"strings"
)

// A kind of problem is part of the public contract: its slug never changes its
// meaning.
type kind struct {
	status int
	title  string
	about  string // for people, served under /problems/{slug}
}

var problemKinds = map[string]kind{
	"malformed":              {400, "The request cannot be read", "The body, a query parameter or a header does not have the form that the call expects. errors[] points at the place: a JSON pointer into the body, or a parameter's name after a question mark."},
	"bad-position":           {400, "Not a position", "after and Last-Event-ID name a position: epoch:number, as the id of an event or next of a page says it."},
	"unauthorized":           {401, "A token is needed", "This server asks for a token: send it as \"Authorization: Bearer …\". The one that was sent may be wrong, expired or removed. Tokens are never taken from the URL."},
	"forbidden":              {403, "Not allowed", "The token is valid, but its role does not include this call, or somebody else holds what it is about. Roles: read follows, app registers queries besides, admin does everything."},
	"cross-origin":           {403, "Cross-origin write refused", "A browser sent this on behalf of a page from another origin. Add that origin to \"origins\" in the configuration if it is meant to."},
	"forwarded":              {403, "Forwarded requests need tokens", "This server has no tokens and takes every caller for an admin, so it serves this machine only. A proxy forwarded the request (its header has Forwarded, Via, X-Forwarded-For or the like). Make a token on the server (freshet token add NAME --role admin), after which every caller sends one; or start the server with --insecure."},
	"not-found":              {404, "Not found", "Nothing is served under this path, or nobody holds the query, endpoint or token that it names (any more)."},
	"no-result":              {404, "No result yet", "The query is registered, but no execution has been complete so far. Retry-After says when it is worth asking again; …/explain says why it has not run."},
	"method-not-allowed":     {405, "Method not allowed", "The resource exists but does not take this method; Allow lists those that it takes."},
	"body-too-slow":          {408, "The body did not arrive", "A request's body has to arrive within half a minute."},
	"not-acceptable":         {406, "Not acceptable", "The result cannot be written in any of the formats that were asked for. SELECT comes as srj, srx, csv and tsv, ASK as srj and srx, CONSTRUCT and DESCRIBE as nt and ttl."},
	"name-taken":             {409, "You use this name for another query", "The caller's registration of another query has this name; ids names that query. Choose another name, or register with replace: true, which moves the name and releases the registration of that query."},
	"ambiguous-name":         {409, "Several have this name", "The name is none of the caller's own, and others gave it to several queries or profiles; ids lists some of them. Use an id."},
	"exists":                 {409, "Exists already", "The name is taken."},
	"not-in-file":            {409, "Not in the file", "The configuration file does not name the endpoint, so it has no value that could be taken back."},
	"conflict":               {409, "Not possible now", "What was asked would contradict the state that the server is in; detail says how to get there."},
	"gap":                    {410, "The change log does not reach back", "The log does not continue from this position. reason says why: too_old (the changes after it have been trimmed), other_epoch (numbering began anew), ahead (the position lies after the newest change). Read the results and go on from the position in their ETag."},
	"precondition-failed":    {412, "Changed meanwhile", "The resource is not the one that If-Match names: read it again, look at what changed, and repeat the edit."},
	"body-too-large":         {413, "The body is too large", "limits.body bounds what a request may carry; registering uses a few kilobytes."},
	"unsupported-media-type": {415, "Unsupported media type", "The body's Content-Type is not one that the call reads; detail names them."},
	"misdirected":            {421, "Not this server's name", "The Host of the request is neither a loopback name, nor the address that Freshet listens on, nor the host of public_url. Set public_url when the server is reached under another name."},
	"bad-query":              {400, "The query cannot be watched", "The text is not a SPARQL 1.1 SELECT, ASK, CONSTRUCT or DESCRIBE query; detail says where reading ended."},
	"update-refused":         {422, "SPARQL Update is not accepted", "Freshet only ever reads: SPARQL Update belongs to the endpoint itself."},
	"service-refused":        {422, "SERVICE is not allowed on this endpoint", "A SERVICE clause makes the endpoint call others on our behalf. An admin may list the endpoint's own services, such as wikibase:label at Wikidata, in own_services, or set allow_service for all."},
	"unknown-endpoint":       {422, "No such endpoint", "The registration names an endpoint that is not configured; detail lists those that are."},
	"bad-setting":            {422, "A setting is out of range", "The request is well-formed, but a value is not one that can be used; errors[] points at it."},
	"bad-endpoint":           {422, "The endpoint's settings do not fit", "The settings cannot be used together; errors[] points at the one to change."},
	"bad-profile":            {422, "The profile cannot be captured", "The request is well-formed, but its items, their lengths or their queries do not go together; errors[] points at the one to change and says how."},
	"limit":                  {429, "A limit of this server is reached", "limits.queries are registered. Release some, or raise the limit."},
	"quota":                  {403, "The token holds as much as it may", "limits.token_queries, limits.token_bytes and limits.token_profiles bound what one token holds; detail says which. Release some, or let the operator raise the limit. Admins are not bound."},
	"rate":                   {429, "Too many registrations at once", "limits.token_rate bounds how many queries and profiles one token registers in a second. Retry-After says when to go on. Admins are not bound."},
	"busy":                   {429, "Too many of these at once", "The call is dear and others of its kind are running. Retry-After says when to try again."},
	"too-many-guesses":       {429, "Too many wrong tokens", "Many wrong tokens came from this address, so further ones are not looked at for a moment. A token that was right from this address before goes on working."},
	"too-many":               {429, "Too many connections", "limits.connections followers are connected, or limits.address_connections of this address. Retry-After says when to try again."},
	"internal":               {500, "Something went wrong here", "The fault is the server's; its log has one line for the request that says why."},
	"unavailable":            {503, "Not available now", "The server is starting or stopping, or what it depends on does not answer. Retry-After says when to try again."},
	"storage-full":           {507, "The server's disk is full", "The disk that holds the store is full, or less than limits.reserve of it is free, so that nothing new is taken in. Reading and following go on. The operator has to make room there; the server then goes on by itself."},
	"not-ready":              {503, "Not ready", "The server is starting or stopping."},
}

func explainProblem(c *call) error {
	slug := c.r.PathValue("slug")
	k, ok := problemKinds[slug]
	if !ok {
		return notFound("there is no problem of this type")
	}
	var b strings.Builder
	b.WriteString(slug + ": " + k.title + "\n\nHTTP status " + strconv.Itoa(k.status) + " " + http.StatusText(k.status) + "\n\n" + k.about + "\n")
	return c.text(http.StatusOK, b.String())
}
