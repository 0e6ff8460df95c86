package report

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"unicode/utf8"
)

// Facts are lines with a name and a text each, for a terminal and for a page.
type Facts struct {
	Title string // for the page; may be empty
	Rows  []Fact
	About string // explanation, for the page
}

// Fact is a line of Facts.
type Fact struct {
	Name, Text string
	About      string // meaning, for the page
	Class      string // "good", "bad" or "", for the page
}

// WriteText writes a line for each fact. Names are padded to width.
func (f *Facts) WriteText(w io.Writer, width int) error {
	for _, row := range f.Rows {
		width = max(width, utf8.RuneCountInString(row.Name))
	}
	for _, row := range f.Rows {
		if _, err := fmt.Fprintf(w, "%-*s  %s\n", width, row.Name, row.Text); err != nil {
			return err
		}
	}
	return nil
}

// HTML returns the facts for a page, or nothing if there are none.
func (f *Facts) HTML() template.HTML {
	if len(f.Rows) == 0 {
		return ""
	}
	hasAbout := false
	for _, row := range f.Rows {
		hasAbout = hasAbout || row.About != ""
	}
	return part("facts", struct {
		*Facts
		Label    string
		HasAbout bool
	}{f, cmp.Or(f.Title, "Facts"), hasAbout})
}

// List returns lines of text for a page, or nothing if there are none.
func List(lines []string) template.HTML { return part("list", lines) }
