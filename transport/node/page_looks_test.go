package node

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// sizes are those of a desk and of two phones.
var sizes = []struct {
	name          string
	width, height int64
}{{"desk", 1280, 800}, {"phone", 390, 844}, {"small", 320, 568}}

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

// look fails the test where a view, in both themes and three sizes, is wider than the window, covers itself, or
// keeps somebody out as far as axe can see. The pictures are for people to look at.
func (p *tab) look(view string) {
	p.t.Helper()
	p.eval(axe(p.t) + "; 0")
	for _, theme := range []string{"light", "dark"} {
		p.theme(theme)
		for _, size := range sizes {
			p.do(chromedp.EmulateViewport(size.width, size.height))
			p.until("the size", fmt.Sprintf("innerWidth === %d", size.width))
			where := view + "-" + theme + "-" + size.name
			if wide := p.eval(`document.documentElement.scrollWidth - innerWidth`); wide != "0" {
				p.t.Errorf("%s: %s px too wide", where, wide)
			}
			p.fits(where)
			if size.name != "small" {
				p.barriers(where)
				p.shot(where)
			}
		}
	}
	p.do(chromedp.EmulateViewport(1280, 800))
}

// fits fails the test if a cell or a line of a list covers another, or cannot be seen without scrolling sideways.
func (p *tab) fits(view string) {
	p.t.Helper()
	found := unquote(p.t, p.eval(`(() => {
		const wrong = []
		const seen = (element) => element.checkVisibility() && element.getBoundingClientRect().width > 1
		for (const row of all("main tbody tr, .problems, .tiles")) {
			const boxes = [...row.children].filter(seen).map((cell) => [cell, cell.getBoundingClientRect()])
			for (const [i, [cell, a]] of boxes.entries()) {
				const words = cell.innerText.slice(0, 40)
				if (a.right > document.documentElement.clientWidth + 1 || a.left < 0)
					wrong.push(words + " is outside of the window")
				if (cell.scrollWidth > cell.clientWidth + 1 && getComputedStyle(cell).display !== "inline")
					wrong.push(words + " is wider than its place")
				for (const [other, b] of boxes.slice(i + 1)) {
					if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
						wrong.push(words + " covers " + other.innerText.slice(0, 40))
				}
			}
		}
		for (const { lastChild: { lastChild: label } } of all(".legend tbody th")) {
			const range = document.createRange()
			range.setStart(label, label.data.lastIndexOf(" ") + 1)
			range.setEnd(label, label.data.length)
			if (/average|p99/.test(range) && range.getClientRects().length > 1)
				wrong.push(range + " breaks inside the word")
		}
		for (const part of all(".scroll")) if (seen(part) && part.scrollWidth > part.clientWidth)
			wrong.push(part.getAttribute("aria-label") + " scrolls sideways")
		return [...new Set(wrong)].join("; ")
	})()`))
	redistest.ErrorIf(p.t, found != "", "%s: %s", view, found)
}

// barriers fails the test with what axe finds.
func (p *tab) barriers(view string) {
	p.t.Helper()
	var found []barrier
	redistest.OK(p.t, json.Unmarshal([]byte(p.eval(
		`axe.run({ resultTypes: ["violations"] }).then((result) => result.violations)`)), &found))
	for _, f := range found {
		for _, n := range f.Nodes {
			p.t.Errorf("%s: %s (%s): %s\n%s\n%s", view, f.ID, f.Impact, f.Help, n.HTML, n.FailureSummary)
		}
	}
}

// The table, the form before it and the lobby look as they should while players do what they can.
func TestPage_Looks(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL(), "--capacity", "8")
	p := b.open("李四", nodes[0].page("42"))
	p.until("the form", `!byId("login").hidden`)
	p.look("login")
	p.take("李四")
	p.until("the table", `all(".seat").length === 8`)
	for i, name := range []string{"张三", "Ada Lovelace", "سارة", "王五", "Zoë"} {
		c := nodes[0].player(name, nil)
		join(t, c, "42")
		for _, request := range []protocol.Request{
			{Action: protocol.ActionReady, Room: "42", Value: i%2 == 0},
			{Action: protocol.ActionSay, Room: "42", Text: "Shall we begin?"},
		} {
			_, err := c.Do(t.Context(), request)
			redistest.OK(t, err)
		}
	}
	p.look("watching")
	p.click(`.seat[data-seat="6"]`)
	p.until("the own seat", own(6)+` && !byId("ready").hidden`)
	p.click("#ready")
	p.until("the mark", `first('.seat[data-seat="6"]').dataset.ready === "true"`)
	p.click(`.seat[data-seat="0"]`)
	p.until("words", `text("table-problem") !== ""`)
	p.click("#facts summary")
	p.eval(`byId("crowd").value = 8; byId("stampede-go").click(); 0`)
	p.until("the comparison", `!byId("stampede-result").hidden`)
	p.look("table")
	join(t, nodes[0].player("someone", nil), "backgammon-7")
	p.eval(`location.hash = ""; 0`)
	p.until("the lobby", `all("#tables a").length === 2`)
	p.look("lobby")
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
	p.until("the table", `all(".seat").length > 0`)
	focus := func() string {
		return unquote(t, p.eval(`document.activeElement.id || document.activeElement.dataset.seat || `+
			`document.activeElement.className || "nothing"`))
	}
	seen := map[string]bool{}
	for range 20 {
		p.do(chromedp.KeyEvent("\t"))
		seen[focus()] = true
		if focus() == "2" {
			break
		}
	}
	redistest.FatalIf(t, !seen["sit"] || !seen["0"] || !seen["1"] || focus() != "2",
		"by Tab the focus came to %v", seen)
	join(t, nodes[0].player("张三", nil), "42")
	p.until("the other player", sits(0, "张三"))
	redistest.ErrorIf(t, focus() != "2", "when another player came the focus went to %q", focus())
	p.do(chromedp.KeyEvent("\r"))
	p.until("the own seat", own(2))
	redistest.ErrorIf(t, focus() != "2", "after sitting down the focus went to %q", focus())
	p.until("what a screen reader says", `text("live").includes("You sit at seat 2.")`)
	outline := unquote(t, p.eval(`getComputedStyle(document.activeElement).outlineStyle`))
	redistest.ErrorIf(t, outline == "none", "the focus cannot be seen")
	p.silent()
}

// Every view of operators looks as it should, with names of all kinds.
func TestOperatorsPage_Looks(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	server := redistest.Start(t)
	nodes, admins := operated(t, 2, server.URL(), "--capacity", "8", "--journal", "100", "--grace", "10m")
	third := prepare(t, server.URL(), "--capacity", "4", "--rate", "20/s")
	third.start()
	for i, name := range []string{"李四", "张三", hostile, "سارة الطويلة جدا", "Ada Lovelace",
		"WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW"} {
		c := nodes[i%2].player(name, nil)
		join(t, c, "42")
		if i%2 == 1 {
			redistest.OK(t, redistest.Err(c.Do(t.Context(),
				protocol.Request{Action: protocol.ActionReady, Room: "42", Value: true})))
		}
	}
	for i := range 12 {
		join(t, nodes[0].player(fmt.Sprint("player ", i), nil), fmt.Sprint("chess-", i))
	}
	join(t, nodes[0].player("someone", nil), strings.Repeat("W", 64))
	operate(t, admins[0], "/api/rooms/43/seats", `{"users":["王五"]}`)
	p := b.open("operator", "http://"+admins[0]+"/admin")
	p.until("three nodes with their load", `all('#nodes-rows tr[data-state="up"]').length === 3 && `+
		`all('.tile[data-state="good"]').length === 4`)
	p.look("admin-overview")
	p.eval(rowOf("nodes-rows", third.addr) + `.querySelector("a").click(); 0`)
	p.until("the node", `text("node-settings").includes("rate20/s: most nodes have 50/s")`)
	p.look("admin-node")
	p.eval(`location.hash = "setting=rate"; 0`)
	p.until("the values", `all("#setting-rows tr").length === 2`)
	p.look("admin-setting")
	p.eval(`location.hash = "charts"; 0`)
	p.until("lines", drawnLine)
	p.look("admin-charts-together")
	p.eval(`byId("charts-nodes").value = "*"; byId("charts-nodes").dispatchEvent(new Event("change")); 0`)
	p.look("admin-charts")
	p.eval(`location.hash = "rooms"; 0`)
	p.until("the rooms", `all("#rooms-rows tr").length === 15`)
	p.look("admin-rooms")
	p.eval(`location.hash = "room=42"; 0`)
	p.until("the members", `all("#members-rows tr").length === 6 && all("#journal-rows tr").length > 5`)
	p.look("admin-room")
	p.eval(`first("#members-rows button").click(); 0`)
	p.until("the dialog", `byId("dialog").open`)
	p.look("admin-dialog")
	p.silent()
}
