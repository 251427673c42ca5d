// Package ui serves the pages for people: what runs, when and why, and the
// forms to act on it.
//
// Every page is whole without a script: the server renders it, lists filter and
// page by GET, actions are forms with POST that answer with a redirect. The one
// script keeps times running and applies what the live stream of the page
// brings, which are fragments rendered by the same templates.
//
// A page is a function that gathers what its template shows (see page). It reads
// the same interfaces as the API, never the API itself.
package ui
