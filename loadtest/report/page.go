// Package report draws the reports of the load test, the bench and the lab: one page, one style, one
// kind of chart and of table.
//
// [Page] is a self-contained web page. [Table] and [Facts] are rows for both
// readers: WriteText writes them for a terminal, HTML for the page. [Chart] is a figure in the
// colours of the page, in light and dark, which package uplot draws in the browser. The package does not know what was
// measured.
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

// Page is a self-contained web page: it opens offline, and its charts are drawn by the library inside it. The zero
// value is an empty page.
type Page struct {
	Command  string       // of roomload
	Question string       // that the command answers
	Verdict  string       // in the title
	Good     bool         // the verdict is shown as good, and otherwise as bad
	Setup    string       // what was run, in a line
	Problems []string     // below the title
	Failed   []Link       // to what is not as it should be, below that
	Sections []Section    // below each other; one without parts is left out
	Style    template.CSS // besides that of every page
}

// Link is words that lead to an element of the page.
type Link struct{ To, Text string }

// Section is a part of a page with a heading.
type Section struct {
	ID    string // its address on the page, unique
	Title string
	About string          // below the title; may be empty
	Parts []template.HTML // below each other; an empty one is left out
}

// Write writes the page, which is XML as well. It returns the error of w.
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

// part executes a template of parts.html. Its errors are bugs of the template.
func part(name string, data any) template.HTML {
	var b strings.Builder
	if err := partTemplates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return template.HTML(b.String())
}
