// Package report draws the reports of the load test, the bench and the lab in one style.
//
// [Page] is a self-contained web page. [Table] and [Facts] have rows: WriteText writes them for a terminal,
// HTML for the page. [Chart] is a figure in the page's colours, in light and dark, which package uplot draws in
// the browser. The package does not know what was measured.
package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"roomd/transport/page/uplot"
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

// Page is a self-contained web page: it opens offline, and the library inside it draws its charts. The zero
// value is an empty page.
type Page struct {
	Command  string       // of roomload
	Question string       // the question that it answers
	Verdict  string       // in the title
	Good     bool         // shows the verdict as good, otherwise as bad
	Setup    string       // description of the run in a line
	Problems []string     // shown below the title
	Failed   []Link       // links to failures, shown below Problems
	Sections []Section    // those without parts are left out
	Style    template.CSS // in addition to the style of every page
}

// Link is a text with a link to an element of the page.
type Link struct{ To, Text string }

// Section is a part of a page with a heading.
type Section struct {
	ID    string // unique address on the page
	Title string
	About string          // below the title; may be empty
	Parts []template.HTML // empty ones are left out
}

// Write writes the page, which is also XML. It returns the error of w.
func (p Page) Write(w io.Writer) error {
	var sections []Section
	hasCharts := false
	for _, s := range p.Sections {
		all := string(join(s.Parts))
		if strings.TrimSpace(all) != "" {
			sections = append(sections, s)
		}
		hasCharts = hasCharts || strings.Contains(all, `<div class="chart"`)
	}
	p.Sections = sections
	return pageTemplate.Execute(w, struct {
		Page
		Common, ChartStyle template.CSS
		HasCharts          bool
		Script             template.JS
	}{p, pageCSS, template.CSS(uplot.Style), hasCharts,
		template.JS("//<![CDATA[\n" + uplot.Script + "\n" + chartJS + "//]]>")})
}

func join(parts []template.HTML) (all template.HTML) {
	for _, part := range parts {
		all += part
	}
	return all
}

// part executes a template of parts.html. It panics on an error, which is a bug of the template.
func part(name string, data any) template.HTML {
	var b strings.Builder
	if err := partTemplates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return template.HTML(b.String())
}
