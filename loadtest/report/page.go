package report

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// Page is a self-contained web page. The zero value is an empty page.
type Page struct {
	Command  string          // of roomload
	Verdict  string          // in the title
	Good     bool            // the verdict is shown in green, and otherwise in red
	Problems []string        // below the title
	Parts    []template.HTML // below each other; an empty one is left out
	Style    template.CSS    // besides that of every page
}

// Write writes the page. It returns the error of w.
func (p Page) Write(w io.Writer) error { return pageTemplate.Execute(w, p) }

// Text returns text as a part of a page, in lines as they are.
func Text(text string) template.HTML {
	return template.HTML("<pre>" + template.HTMLEscapeString(text) + "</pre>")
}
