// Package atom writes the change log as Atom feeds (RFC 4287) with archives (RFC 5005).
// The feed itself holds the newest changes. It links to documents of the older ones, which
// do not change as long as the log contains them.
//
// web/docs/openapi.yaml describes feeds and their filters. The id of an entry is a tag URI with the position of the
// change, and is the same in every feed. A program that processes the entries in the order of their positions has the
// whole log. There is no rate: a reader polls as often as it likes, and gets 304 if there is nothing new.
package atom

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

// Type is the media type of feeds.
const Type = "application/atom+xml; charset=utf-8"

// Extension is the XML namespace of the element change.
const Extension = "urn:freshet:atom"

// block is the number of positions in an archive document. The feed itself holds the newest
// complete block and the changes after it.
const block = 50

// entryBytes is the size of a change's rows above which its entry has only counts and a
// link.
const entryBytes = 32 << 10

// A Source writes feeds.
type Source struct {
	Log  notify.Log
	Head func() (registry.Offset, error) // offset of the newest change of all queries
	// Tagged reports whether a query has a tag. It is needed for feeds of a tag.
	Tagged    func(query, tag string) bool
	PublicURL string
	// Title returns the name of a query for people.
	Title func(query string) string
	// Named returns the URL whose host is part of all ids, which must not change.
	// It is called once for each document.
	Named func() string
}

// A Document is a feed or one of its archives.
type Document struct {
	Body     []byte
	ETag     string    // strong
	Modified time.Time // of the newest entry
	Self     string    // path and query of its URL, as in rel="self"
	Topic    bool      // the hub delivers it
}

// Query writes the feed of one query or, with archive=epoch:seq, the archive that ends at a
// position. With a watch it is in the words of that, with the names of IRIs. The error is a
// *registry.GapError if the log does not contain the archive.
func (s *Source) Query(q *registry.Query, w *watch.Watch, names watch.Namer, params url.Values) (Document, error) {
	st, _, err := s.Log.Current(q.ID, false)
	if err != nil {
		return Document{}, err
	}
	f := feed{
		s: s, host: s.host(), path: "/v1/queries/" + url.PathEscape(q.ID) + "/changes.atom", newest: st.Position, epochless: q.CreatedAt,
		id: "freshet/" + q.ID + "/changes", title: "Changes of " + s.Title(q.ID), words: plain,
		read: func(p registry.Position, limit int) ([]registry.Change, error) { return s.Log.After(q.ID, p, limit) },
		at:   func(c *registry.Change) uint64 { return c.Seq },
		keep: func(*registry.Change) bool { return true }, topic: true,
	}
	if w != nil {
		f.path, f.id, f.topic = "/v1/watches/"+url.PathEscape(q.ID)+"/changes.atom", "freshet/"+q.ID+"/watch", false
		if w.Kind != watch.ByQuery || !(registry.Caller{}).MayRead(q) { // strangers may not see the text of a query
			f.title = "Changes of " + w.Describe(names)
		}
		f.words = func(c *registry.Change) watch.Words { return watch.InWords(c.Delta, w, names).By(c.Edits) }
	}
	if err := f.readParams(params); err != nil {
		return Document{}, err
	}
	if err := f.only.Fits(q); err != nil {
		return Document{}, malformed(err.Error())
	}
	return f.write(params.Get("archive"))
}

// All writes the feed of all queries, or of those with the tag and the endpoint in params.
// Its positions are the store's offsets.
func (s *Source) All(params url.Values) (Document, error) {
	head, err := s.Head()
	if err != nil {
		return Document{}, err
	}
	f := feed{
		s: s, host: s.host(), path: "/v1/changes.atom", newest: head, epochless: time.Unix(0, 0).UTC(),
		id: "freshet/changes", title: "Changes", words: plain,
		read: s.Log.All,
		at:   func(c *registry.Change) uint64 { return c.Offset },
	}
	endpoint, tag := params.Get("endpoint"), params.Get("tag")
	for _, p := range [][2]string{{"endpoint", endpoint}, {"tag", tag}} {
		if p[1] != "" {
			f.filter = append(f.filter, p[0]+"="+url.QueryEscape(p[1]))
			f.id += "?" + p[0] + "=" + url.QueryEscape(p[1])
			f.title += ", " + p[0] + " " + p[1]
		}
	}
	if err := f.readParams(params); err != nil {
		return Document{}, err
	}
	f.keep = func(c *registry.Change) bool {
		return (endpoint == "" || c.Endpoint == endpoint) && (tag == "" || s.Tagged(c.Query, tag))
	}
	return f.write(params.Get("archive"))
}

// A feed is the description of a feed to be written.
type feed struct {
	s         *Source
	host      string // in ids
	path      string
	filter    []string // parameters of its URL
	only      *cursor.Filter
	suffix    string // of the ids of entries with a part of a change
	topic     bool
	newest    registry.Position
	epochless time.Time // modification time of a feed without entries
	id, title string
	read      func(registry.Position, int) ([]registry.Change, error)
	at        func(*registry.Change) uint64
	keep      func(*registry.Change) bool
	words     func(*registry.Change) watch.Words
}

func plain(c *registry.Change) watch.Words {
	return watch.InWords(c.Delta, nil, watch.Plain).By(c.Edits)
}

func (f *feed) readParams(params url.Values) (err error) {
	if params.Has("rate") {
		return malformed("a feed has no rate: read it as often as you like")
	}
	if f.only, _, err = cursor.ParseParams(params); err != nil {
		return malformed(err.Error())
	}
	var own []string
	for _, name := range []string{"min_jaccard", "min_rows", "vars", "where"} {
		for _, v := range params[name] {
			own = append(own, name+"="+url.QueryEscape(v))
		}
	}
	if len(own) == 0 {
		return nil
	}
	f.filter, f.topic = append(f.filter, own...), false
	f.id, f.title = f.id+"?"+strings.Join(own, "&"), f.title+", filtered"
	if f.only.ByRow() {
		f.suffix = "?" + strings.Join(own, "&")
	}
	return nil
}

func malformed(detail string) error {
	return &registry.Problem{Kind: registry.KindMalformed, Detail: detail}
}

// shows returns the part of a change that the feed shows. ok is false if there is none.
func (f *feed) shows(c *registry.Change) (left registry.Change, ok bool) {
	if !f.keep(c) {
		return left, false
	}
	if f.only.ByRow() && (c.Delta == nil || c.Delta.Form != diff.Select || c.Delta.Ordered) {
		return left, false
	}
	left, ok = f.only.Apply(*c)
	if ok && !f.only.ByRow() {
		left = *c // the whole change
	}
	return left, ok
}

func (f *feed) write(archive string) (Document, error) {
	if archive == "" {
		return f.current()
	}
	p, err := registry.ParsePosition(archive)
	if err != nil || p.Seq == 0 || p.Seq%block != 0 {
		return Document{}, &registry.Problem{Kind: registry.KindBadPosition, Detail: "archive is what prev-archive of a feed says"}
	}
	switch {
	case p.Epoch != f.newest.Epoch:
		return Document{}, &registry.GapError{Reason: registry.OtherEpoch}
	case p.Seq > f.newest.Seq/block*block:
		if _, err := f.read(p, 0); err != nil { // a node that lagged may have it now
			return Document{}, err
		}
	}
	entries, err := f.entries(p.Seq-block, p.Seq)
	if err != nil {
		return Document{}, err
	}
	return f.document(entries, p.Seq, p.Seq-block)
}

// current returns the feed itself, without changes that the log no longer has.
func (f *feed) current() (Document, error) {
	n := f.newest.Seq
	first := max(n/block, 1)*block - block
	before := first
	entries, err := f.entries(first, n)
	for range 3 { // the log may be trimmed during a try
		if !tooOld(err) {
			break
		}
		if first, err = f.reach(first+1, n); err == nil {
			entries, err = f.entries(first, n)
		}
		before = 0 // there is no older document
	}
	if err != nil {
		return Document{}, err
	}
	return f.document(entries, 0, before)
}

func tooOld(err error) bool {
	var gap *registry.GapError
	return errors.As(err, &gap) && gap.Reason == registry.TooOld
}

// reach returns the lowest position in [low, high] from which the log can be read.
func (f *feed) reach(low, high uint64) (uint64, error) {
	for low < high {
		mid := low + (high-low)/2
		_, err := f.read(registry.Position{Epoch: f.newest.Epoch, Seq: mid}, 1)
		switch {
		case tooOld(err):
			low = mid + 1
		case err != nil:
			return 0, err
		default:
			high = mid
		}
	}
	return low, nil
}

// An entry is a written entry with the values that the feed needs.
type entry struct {
	text    []byte
	updated time.Time
}

// entries writes the changes after from up to until, oldest first.
func (f *feed) entries(from, until uint64) (list []entry, err error) {
	p := registry.Position{Epoch: f.newest.Epoch, Seq: from}
	for p.Seq < until {
		page, err := f.read(p, int(min(until-p.Seq, math.MaxInt16)))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			if p.Seq = f.at(&page[i]); p.Seq > until {
				break
			}
			if c, ok := f.shows(&page[i]); ok {
				e, err := f.entry(&c)
				if err != nil {
					return nil, err
				}
				list = append(list, e)
			}
		}
	}
	return list, nil
}

// document assembles a feed with the newest entry first. archive is its last position, 0 for
// the feed itself. before is the end of the older document, 0 for none.
func (f *feed) document(entries []entry, archive, before uint64) (Document, error) {
	d := Document{Self: f.link(archive), Modified: f.epochless, Topic: f.topic && archive == 0}
	if n := len(entries); n > 0 {
		d.Modified = entries[n-1].updated
	}
	var b bytes.Buffer
	b.WriteString(xml.Header + `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0">` + "\n")
	element(&b, "id", f.tag(f.id))
	element(&b, "title", f.title)
	element(&b, "updated", stamp(d.Modified))
	b.WriteString("<author><name>Freshet</name></author>\n<generator>Freshet</generator>\n")
	f.s.linkTo(&b, "self", "", d.Self)
	if d.Topic {
		f.s.linkTo(&b, "hub", "", "/v1/hub")
	}
	if archive > 0 {
		b.WriteString("<fh:archive/>\n")
		f.s.linkTo(&b, "current", "", f.link(0))
	}
	if before > 0 {
		f.s.linkTo(&b, "prev-archive", "", f.link(before))
		f.s.linkTo(&b, "next", "", f.link(before))
	}
	for _, e := range slices.Backward(entries) {
		b.Write(e.text)
	}
	b.WriteString("</feed>\n")
	d.Body = b.Bytes()
	sum := sha256.Sum256(d.Body)
	d.ETag = `"` + hex.EncodeToString(sum[:12]) + `.atom"`
	return d, nil
}

// link returns the path and query of the feed, or of one of its archives.
func (f *feed) link(archive uint64) string {
	params := slices.Clone(f.filter)
	if archive > 0 {
		params = append(params, "archive="+url.QueryEscape(registry.Position{Epoch: f.newest.Epoch, Seq: archive}.String()))
	}
	if len(params) == 0 {
		return f.path
	}
	return f.path + "?" + strings.Join(params, "&")
}

func (f *feed) entry(c *registry.Change) (entry, error) {
	s, e := f.s, entry{updated: c.Time}
	format := notify.Format{MaxChange: entryBytes, PublicURL: s.PublicURL, Filtered: f.only.ByRow()}
	change, err := notify.MarshalChange(*c, format)
	if err != nil {
		return e, err
	}
	words := f.words(c)
	if format.TooLarge(c.Delta) {
		words = watch.Words{Headline: words.Headline, Edits: words.Edits}
	}
	title, page := words.Short(), "/queries/"+url.PathEscape(c.Query)+"/changes/"+strconv.FormatUint(c.Seq, 10)
	if f.path == "/v1/changes.atom" {
		title = s.Title(c.Query) + ": " + title
	}
	var b bytes.Buffer
	b.WriteString("<entry>\n")
	element(&b, "id", f.tag("freshet/"+c.Query+"/"+c.Position().String()+f.suffix))
	element(&b, "title", title)
	element(&b, "updated", stamp(c.Time))
	if c.Baseline {
		b.WriteString(`<category term="baseline"/>` + "\n")
	}
	s.linkTo(&b, "alternate", "text/html", page)
	s.linkTo(&b, "alternate", "application/json", "/v1/queries/"+url.PathEscape(c.Query)+"/changes?limit=1&after="+
		url.QueryEscape(registry.Position{Epoch: c.Epoch, Seq: c.Seq - 1}.String()))
	element(&b, "summary", words.Headline)
	content, err := difference(words, strings.TrimSuffix(s.PublicURL, "/")+page)
	if err != nil {
		return e, err
	}
	tagged(&b, "content", `type="html"`, content)
	tagged(&b, "change", `xmlns="`+Extension+`"`, printable(change))
	b.WriteString("</entry>\n")
	e.text = b.Bytes()
	return e, nil
}

var differences = template.Must(template.New("").Parse(`<p>{{.Headline}}</p>{{with .Lines}}<ul>{{range ` +
	`.}}<li>{{.}}</li>{{end}}</ul>{{end}}` +
	`{{with .More}}<p>and {{.}} more</p>{{end}}{{with .Edits}}<p>possibly by {{range $i, $e := .}}{{if $i}}, {{end}}` +
	`{{if $e.Link}}<a href="{{$e.Link}}">{{$e.Text}}</a>{{else}}{{$e.Text}}{{end}}{{end}}</p>{{end}}` +
	`<p><a href="{{.Page}}">the whole change</a></p>`))

func difference(w watch.Words, page string) (string, error) {
	var b strings.Builder
	err := differences.Execute(&b, struct {
		watch.Words
		Page string
	}{w, page})
	return b.String(), err
}

// printable replaces characters that JSON allows and XML does not by JSON escapes. They
// occur only inside strings.
func printable(json []byte) string {
	return unprintable.Replace(string(json))
}

var unprintable = strings.NewReplacer("\uFFFE", `\uFFFE`, "\uFFFF", `\uFFFF`)

func element(b *bytes.Buffer, name, text string) { tagged(b, name, "", text) }

func tagged(b *bytes.Buffer, name, attributes, text string) {
	b.WriteString("<" + strings.TrimSpace(name+" "+attributes) + ">")
	_ = xml.EscapeText(b, []byte(text)) // writing to a buffer cannot fail
	b.WriteString("</" + name + ">\n")
}

// linkTo writes a link to a path of this server; typ is the media type, "" to leave it out.
func (s *Source) linkTo(b *bytes.Buffer, rel, typ, path string) {
	if typ != "" {
		typ = ` type="` + typ + `"`
	}
	b.WriteString(`<link rel="` + rel + `"` + typ + ` href="`)
	_ = xml.EscapeText(b, []byte(strings.TrimSuffix(s.PublicURL, "/")+path)) // cannot fail either
	b.WriteString(`"/>` + "\n")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// tag returns a tag URI (RFC 4151) with the name of this server, or of its cluster.
func (f *feed) tag(specific string) string { return "tag:" + f.host + ",2026:" + specific }

// host returns the host that names this server in ids.
func (s *Source) host() string {
	u, err := url.Parse(s.Named())
	if err != nil || u.Hostname() == "" || strings.Contains(u.Hostname(), ":") {
		return "localhost"
	}
	return strings.ToLower(u.Hostname())
}
