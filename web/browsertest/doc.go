// Package browsertest tests the pages in a real browser, with the program as users
// run it, the embedded endpoint, and Chromium. It is a separate module, so that the
// browser driver does not become a dependency of the program.
//
// Run it with "make ui-test", which saves pictures of all pages to test-output/ui.
package browsertest
