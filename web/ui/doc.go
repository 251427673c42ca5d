// Package ui serves the web pages: what runs, when and why, and forms for actions.
//
// Every page works without a script: the server renders it, lists are filtered and
// paged by GET, and actions are POST forms that answer with a redirect. The only
// script keeps relative times current and applies the page's live stream, which
// consists of fragments rendered by the same templates.
//
// A page is a function that gathers the data its template shows (see page). It uses
// the same interfaces as the API and never calls the API itself.
package ui
