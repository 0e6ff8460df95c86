// Package reporttest reads the pages of reports in tests.
package reporttest

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// Elements returns the number of elements by name in a page. It ends the test if the page is not well-formed:
// our pages are also XML.
func Elements(t testing.TB, page string) map[string]int {
	t.Helper()
	elements := make(map[string]int)
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v\n%s", err, page)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
}

// SelfContained fails the test if a page is not well-formed, loads something, has a script other than the one
// for charts, or has a table as plain text.
func SelfContained(t testing.TB, page string) {
	t.Helper()
	e := Elements(t, page)
	for _, name := range []string{"pre", "link", "img", "iframe"} {
		if e[name] > 0 {
			t.Errorf("the page has %d × <%s>", e[name], name)
		}
	}
	if scripts := e["script"] - strings.Count(page, `<script type="application/json">`); scripts > 1 {
		t.Errorf("the page has %d scripts", scripts)
	}
	for _, loads := range []string{"src=\"", "href=\"http", "@import", "url(http", "url('http", "url(\"http"} {
		if strings.Contains(page, loads) {
			t.Errorf("the page has %s", loads)
		}
	}
}
