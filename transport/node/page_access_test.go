package node

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
)

// axe reads the checker of accessibility, which npm installs.
func axe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile("../../transport/page/testdata/node_modules/axe-core/axe.min.js")
	switch {
	case err == nil:
		return string(script)
	case os.Getenv("CI") != "":
		t.Fatalf("%v: run npm ci --prefix transport/page/testdata; in CI it has to be there", err)
	}
	t.Skipf("%v: run npm ci --prefix transport/page/testdata", err)
	return ""
}

// barrier is what axe complains of.
type barrier struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// Each view in both themes keeps nobody out, as far as axe can see.
func TestPage_Accessible(t *testing.T) {
	redistest.Thorough(t)
	script := axe(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL(), "--capacity", "6")
	p := b.open("李四", nodes[0].page("42"))
	check := func(view string) {
		t.Helper()
		p.eval(script + "; 0")
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			for _, size := range sizes[:2] {
				p.do(chromedp.EmulateViewport(size.width, size.height))
				var found []barrier
				redistest.OK(t, json.Unmarshal([]byte(p.eval(`axe.run({ resultTypes: ["violations"] }).then((result) => result.violations)`)), &found))
				for _, f := range found {
					for _, n := range f.Nodes {
						t.Errorf("%s, %s, %s: %s (%s): %s\n%s\n%s", view, theme, size.name, f.ID, f.Impact, f.Help, n.HTML, n.FailureSummary)
					}
				}
			}
		}
		p.do(chromedp.EmulateViewport(1280, 800))
	}
	p.until("the form", `!document.getElementById("login").hidden`)
	check("login")
	p.take("李四")
	p.until("the table", `document.querySelectorAll(".seat").length > 0`)
	join(t, nodes[0].player("张三", nil), "42")
	p.until("the other player", sits(0, "张三"))
	check("watching")
	p.click(`.seat[data-seat="3"]`)
	p.until("the own seat", own(3))
	p.click("#ready")
	p.click(`.seat[data-seat="0"]`)
	p.until("words", `document.getElementById("table-problem").textContent !== ""`)
	p.click("#facts summary")
	p.eval(`document.getElementById("crowd").value = 8; document.getElementById("stampede-go").click(); 0`)
	p.until("the comparison", `!document.getElementById("stampede-result").hidden`)
	check("playing")
	p.eval(`location.hash = ""; 0`)
	p.until("the lobby", `document.querySelectorAll("#tables a").length > 0`)
	check("lobby")
	p.silent()
}

// The table can be used with the keyboard alone, and the focus stays where it is while others come.
func TestPage_Keyboard(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL(), "--capacity", "4")
	p := b.open("李四", nodes[0].page("42"))
	p.until("the form", `document.activeElement?.id === "login-value"`)
	p.do(chromedp.KeyEvent("Li Si\r"))
	p.until("the table", `document.querySelectorAll(".seat").length > 0`)
	focus := func() string {
		return unquote(t, p.eval(`document.activeElement.id || document.activeElement.dataset.seat || document.activeElement.className || "nothing"`))
	}
	seen := map[string]bool{}
	for range 20 {
		p.do(chromedp.KeyEvent("\t"))
		seen[focus()] = true
		if focus() == "2" {
			break
		}
	}
	if !seen["sit"] || !seen["0"] || !seen["1"] || focus() != "2" {
		t.Fatalf("by Tab the focus came to %v", seen)
	}
	join(t, nodes[0].player("张三", nil), "42")
	p.until("the other player", sits(0, "张三"))
	if focus() != "2" {
		t.Errorf("when another player came the focus went to %q", focus())
	}
	p.do(chromedp.KeyEvent("\r"))
	p.until("the own seat", own(2))
	if focus() != "2" {
		t.Errorf("after sitting down the focus went to %q", focus())
	}
	p.until("what a screen reader says", `document.getElementById("live").textContent.includes("You sit at seat 2.")`)
	outline := unquote(t, p.eval(`getComputedStyle(document.activeElement).outlineStyle`))
	if outline == "none" {
		t.Error("the focus cannot be seen")
	}
	p.silent()
}
