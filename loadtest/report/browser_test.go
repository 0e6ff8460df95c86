package report

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// look draws a page in a browser of that width, and returns what an expression in JavaScript says of it.
func look(t *testing.T, p Page, width int, expression string) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium is not installed; in CI it has to be")
		}
		t.Skip("chromium is not installed: this test looks at the page in one")
	}
	var page strings.Builder
	if err := p.Write(&page); err != nil {
		t.Fatal(err)
	}
	// A browser's window is not as narrow as a phone's.
	text := strings.Replace(page.String(), "<html", fmt.Sprintf(`<html style="width: %dpx"`, width), 1)
	ask := `<script>addEventListener("load", () => setTimeout(() => { document.body.dataset.answer = encodeURI(` + expression + `) }, 100))</script></body>`
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(strings.Replace(text, "</body>", ask, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--user-data-dir="+filepath.Join(dir, "browser"), "--window-size=1280,900",
		"--virtual-time-budget=2000", "--dump-dom", "file://"+file).Output()
	answer := regexp.MustCompile(`data-answer="([^"]*)"`).FindSubmatch(out)
	if err != nil || answer == nil {
		t.Fatalf("the browser does not answer: %v\n%.2000s", err, out)
	}
	return string(answer[1])
}

// drawn records what the charts draw: each text, its place and its tilt, and how many lines there were before it.
const drawn template.HTML = `<script>
const texts = [], hidden = ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth, canvas = CanvasRenderingContext2D.prototype, { fillText, stroke } = canvas
let lines = 0
canvas.stroke = function (...args) { lines++; return stroke.apply(this, args) }
canvas.fillText = function (text, x, y) {
  const m = this.getTransform(), at = m.transformPoint({ x, y }), wide = this.measureText(text).width, to = this.textAlign === "right" ? -1 : 1
  texts.push({ text, lines, x: at.x, y: at.y, tilt: Math.atan2(m.b, m.a), end: at.x + to * wide * m.a, right: this.canvas.width })
  return fillText.call(this, text, x, y)
}
</script>`

// text is one of them. End is where it ends, and Right the edge of its chart.
type text struct {
	Text                   string
	Lines                  int
	X, Y, Tilt, End, Right float64
}

func isCategory(text string) bool { return strings.HasPrefix(text, "four-nodes") }

// On a screen and on a phone a chart has a legend with values, and its words can be read; a table shows all its columns, or
// scrolls by itself.
func TestPage_InABrowser(t *testing.T) {
	t.Parallel()
	lines := Chart{Title: "lines", X: Axis{Label: "seconds"}, Y: Axis{Label: "ms"}, Spans: []Span{{1, 2, "node-kill"}, {9.9, 10, "clients-hole"}},
		Series: []Series{{Points: []Point{{0, 1}, {5, 33}, {10, 3}}}}}
	bars := Chart{Title: "bars", Y: Axis{Log: true}, Series: []Series{{Name: "a"}, {Name: "b"}}}
	for i := range 10 {
		bars.X.Categories = append(bars.X.Categories, fmt.Sprintf("four-nodes-%d-rooms", i))
		for s := range bars.Series {
			bars.Series[s].Points = append(bars.Series[s].Points, Point{float64(i), float64(1 + i)})
		}
	}
	table := Table{Columns: []Column{{}}, Rows: []Row{{Cells: []string{"article"}}}}
	for range 14 {
		table.Columns = append(table.Columns, Column{Head: "p99.9 ms"})
		table.Rows[0].Cells = append(table.Rows[0].Cells, "26256.03")
	}
	page := Page{Sections: []Section{{ID: "all", Parts: []template.HTML{drawn, lines.HTML(), bars.HTML(), table.HTML()}}}}
	for _, width := range []int{1280, 390} {
		var saw struct {
			Legend      string
			Texts       []text
			Page, Table int // how much of them is hidden
		}
		answer, err := url.PathUnescape(look(t, page, width, `JSON.stringify({
			legend: [...document.querySelectorAll(".u-legend .u-value")].map((e) => e.textContent).join("|"), texts,
			page: hidden(document.body), table: hidden(document.querySelector(".table .scroll")) })`))
		if err == nil {
			err = json.Unmarshal([]byte(answer), &saw)
		}
		if err != nil {
			t.Fatal(err)
		}
		if saw.Legend != "0 to 10|at most 33" {
			t.Errorf("at %d the legends say %q", width, saw.Legend)
		}
		if saw.Page > 0 || width == 1280 && saw.Table > 0 {
			t.Errorf("at %d %d of the page is hidden, and %d of the table", width, saw.Page, saw.Table)
		}
		for i, at := range saw.Texts {
			if at.X < 0 || at.End < 0 || at.End > at.Right+1 {
				t.Errorf("at %d a chart cuts %q off", width, at.Text)
			}
			// Nothing is drawn over the names of spans, which come last.
			if strings.Contains(at.Text, "-kill") && slices.ContainsFunc(saw.Texts[i:i+2], func(next text) bool { return next.Lines != at.Lines || at.Lines == 0 }) {
				t.Errorf("at %d lines are drawn over %q", width, at.Text)
			}
			if n := i - 1; n >= 0 && isCategory(at.Text) && isCategory(saw.Texts[n].Text) && at.X > saw.Texts[n].X {
				if apart := (at.X - saw.Texts[n].X) * math.Abs(math.Sin(at.Tilt)); apart < 12 {
					t.Errorf("at %d %q is %.1f from its neighbour", width, at.Text, apart)
				}
			}
		}
	}
}
