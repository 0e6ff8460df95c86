package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS template.CSS
	//go:embed parts.html
	partsHTML string

	pageTemplate  = template.Must(template.New("page").Parse(pageHTML))
	partTemplates = template.Must(template.New("parts").Parse(partsHTML))
)

// Page is a self-contained web page. The zero value is an empty page.
type Page struct {
	Command  string       // of roomload
	Question string       // that the command answers
	Verdict  string       // in the title
	Good     bool         // the verdict is shown as good, and otherwise as bad
	Setup    string       // what was run, in a line
	Problems []string     // below the title
	Sections []Section    // below each other; one without parts is left out
	Style    template.CSS // besides that of every page
}

// Section is a part of a page with a heading.
type Section struct {
	ID    string // its address on the page, unique
	Title string
	About string          // below the title; may be empty
	Parts []template.HTML // below each other; an empty one is left out
}

// Write writes the page. It returns the error of w.
func (p Page) Write(w io.Writer) error {
	var sections []Section
	for _, s := range p.Sections {
		if strings.TrimSpace(string(join(s.Parts))) != "" {
			sections = append(sections, s)
		}
	}
	p.Sections = sections
	return pageTemplate.Execute(w, struct {
		Page
		Common template.CSS
	}{p, pageCSS})
}

func join(parts []template.HTML) (all template.HTML) {
	for _, part := range parts {
		all += part
	}
	return all
}

// part executes a template of parts.html. Its errors are bugs of the template.
func part(name string, data any) template.HTML {
	var b strings.Builder
	if err := partTemplates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return template.HTML(b.String())
}
