package report

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// What gonum writes into each picture, and the page decides itself.
var (
	svgHead   = regexp.MustCompile(`(?s)^.*?<svg[^>]*viewBox="([^"]*)"[^>]*>`)
	svgFont   = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*;`)
	svgSeries = regexp.MustCompile(`<path d="([^"]*)" style="([^"]*)#FEDC([0-9A-F]{2})([^"]*)" />`)
	// The page's letters may be wider than those that the plot was laid out with.
	svgSizes  = strings.NewReplacer("font-size:12px", "font-size:11px", "font-size:10px", "font-size:9px")
	svgColors = strings.NewReplacer("#000000", "var(--ink)", "#FEDB00", "var(--grid)")
)

// svg draws the plot with the page's font, and with colours that follow its theme. Each series has its
// name, which a browser shows at the pointer.
func (p *Plot) svg(width, height vg.Length) (template.HTML, error) {
	canvas := vgsvg.New(width, height)
	p.Draw(vgdraw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	text := svgHead.ReplaceAllString(out.String(), `<svg viewBox="$1" role="img" aria-label="`+template.HTMLEscapeString(p.Title)+`">`)
	text = svgSeries.ReplaceAllStringFunc(text, func(path string) string {
		m := svgSeries.FindStringSubmatch(path)
		i, err := strconv.ParseUint(m[3], 16, 8)
		if err != nil || int(i) >= len(p.entries) {
			return path
		}
		title := ""
		if name := p.entries[i].Name; name != "" {
			title = "<title>" + template.HTMLEscapeString(name) + "</title>"
		}
		return fmt.Sprintf(`<path d="%s" style="%s%s%s">%s</path>`, m[1], m[2], p.entries[i].color(), m[4], title)
	})
	text = svgColors.Replace(svgFont.ReplaceAllString(text, ""))
	return template.HTML(svgSizes.Replace(text)), nil
}

// color returns the colour as a variable of the page.
func (e entry) color() string {
	if e.Series == "ink" {
		return "var(--ink)"
	}
	return "var(--s" + e.Series + ")"
}

// dashText returns a pattern as SVG has it.
func dashText(dashes []vg.Length) string {
	texts := make([]string, len(dashes))
	for i, d := range dashes {
		texts[i] = strconv.FormatFloat(d.Points(), 'f', -1, 64)
	}
	return strings.Join(texts, " ")
}
