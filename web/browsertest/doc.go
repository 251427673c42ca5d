// Package browsertest tests the admin's pages in a real browser: the program as
// users run it, the embedded endpoint, and Chromium. It is a module of its own,
// so that what drives the browser stays out of the program's dependencies.
//
// Run it with "make ui-test"; pictures of all pages are left in test-output/ui.
package browsertest
