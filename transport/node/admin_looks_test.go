package node

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// Every view in both themes and three sizes keeps nobody out, as far as axe can see, and is not
// wider than the window. The pictures are for people to look at.
func TestOperatorsPage_Looks(t *testing.T) {
	redistest.Thorough(t)
	script := axe(t)
	b := startBrowser(t)
	server := redistest.Start(t)
	nodes, admins := operated(t, 2, server.URL(), "--capacity", "8", "--journal", "100", "--grace", "10m")
	third := prepare(t, server.URL(), "--capacity", "4", "--rate", "20/s")
	third.start()
	for i, name := range []string{"李四", "张三", hostile, "سارة الطويلة جدا", "Ada Lovelace", "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW"} {
		c := nodes[i%2].player(name, nil)
		join(t, c, "42")
		if i%2 == 1 {
			if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionReady, Room: "42", Value: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 12 {
		join(t, nodes[0].player(fmt.Sprint("player ", i), nil), fmt.Sprint("chess-", i))
	}
	join(t, nodes[0].player("someone", nil), strings.Repeat("W", 64))
	operate(t, admins[0], "/api/rooms/43/seats", `{"users":["王五"]}`)
	p := b.open("operator", "http://"+admins[0]+"/admin")
	p.eval(script + "; 0")
	look := func(view string) {
		t.Helper()
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			for _, size := range sizes {
				p.do(chromedp.EmulateViewport(size.width, size.height))
				p.until("the size", fmt.Sprintf("innerWidth === %d", size.width))
				if wide := p.eval(`document.documentElement.scrollWidth - innerWidth`); wide != "0" {
					t.Errorf("%s, %s, %s: %s px too wide", view, theme, size.name, wide)
				}
				p.fits(view + ", " + theme + ", " + size.name)
				if size.name != "small" {
					p.barriers(view + ", " + theme + ", " + size.name)
					p.shot(fmt.Sprintf("admin-%s-%s-%s", view, theme, size.name))
				}
			}
		}
		p.do(chromedp.EmulateViewport(1280, 800))
	}
	p.until("three nodes with their load", `document.querySelectorAll('#nodes-rows tr[data-state="up"]').length === 3 && document.querySelectorAll('.tile[data-state="good"]').length === 4`)
	look("overview")
	p.eval(rowOf("nodes-rows", third.addr) + `.querySelector("a").click(); 0`)
	p.until("the node", `document.getElementById("node-settings").textContent.includes("rate20/s: most nodes have 50/s")`)
	look("node")
	p.eval(`location.hash = "setting=rate"; 0`)
	p.until("the values", `document.querySelectorAll("#setting-rows tr").length === 2`)
	look("setting")
	p.eval(`location.hash = "charts"; 0`)
	p.until("lines", drawnLine)
	look("charts-together")
	p.eval(`document.getElementById("charts-nodes").value = "*"; document.getElementById("charts-nodes").dispatchEvent(new Event("change")); 0`)
	look("charts")
	p.eval(`location.hash = "rooms"; 0`)
	p.until("the rooms", `document.querySelectorAll("#rooms-rows tr").length === 15`)
	look("rooms")
	p.eval(`location.hash = "room=42"; 0`)
	p.until("the members", `document.querySelectorAll("#members-rows tr").length === 6 && document.querySelectorAll("#journal-rows tr").length > 5`)
	look("room")
	p.eval(`document.querySelector("#members-rows button").click(); 0`)
	p.until("the dialog", `document.getElementById("dialog").open`)
	look("dialog")
	p.silent()
}

// fits fails the test if a cell or a line of a list covers another, or cannot be seen without scrolling sideways.
func (p *tab) fits(view string) {
	p.t.Helper()
	found := unquote(p.t, p.eval(`(() => {
		const wrong = []
		const seen = (element) => element.checkVisibility() && element.getBoundingClientRect().width > 1
		for (const row of document.querySelectorAll("main tbody tr, .problems, .tiles")) {
			const boxes = [...row.children].filter(seen).map((cell) => [cell, cell.getBoundingClientRect()])
			for (const [i, [cell, a]] of boxes.entries()) {
				const words = cell.innerText.slice(0, 40)
				if (a.right > document.documentElement.clientWidth + 1 || a.left < 0) wrong.push(words + " is outside of the window")
				if (cell.scrollWidth > cell.clientWidth + 1 && getComputedStyle(cell).display !== "inline") wrong.push(words + " is wider than its place")
				for (const [other, b] of boxes.slice(i + 1)) {
					if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) wrong.push(words + " covers " + other.innerText.slice(0, 40))
				}
			}
		}
		for (const { lastChild: { lastChild: label } } of document.querySelectorAll(".legend tbody th")) {
			const range = document.createRange()
			range.setStart(label, label.data.lastIndexOf(" ") + 1)
			range.setEnd(label, label.data.length)
			if (/average|p99/.test(range) && range.getClientRects().length > 1) wrong.push(range + " breaks inside the word")
		}
		for (const part of document.querySelectorAll(".scroll")) if (seen(part) && part.scrollWidth > part.clientWidth) wrong.push(part.getAttribute("aria-label") + " scrolls sideways")
		return [...new Set(wrong)].join("; ")
	})()`))
	if found != "" {
		p.t.Errorf("%s: %s", view, found)
	}
}

// barriers fails the test with what axe finds.
func (p *tab) barriers(view string) {
	p.t.Helper()
	var found []barrier
	if err := json.Unmarshal([]byte(p.eval(`axe.run({ resultTypes: ["violations"] }).then((result) => result.violations)`)), &found); err != nil {
		p.t.Fatal(err)
	}
	for _, f := range found {
		for _, n := range f.Nodes {
			p.t.Errorf("%s: %s (%s): %s\n%s\n%s", view, f.ID, f.Impact, f.Help, n.HTML, n.FailureSummary)
		}
	}
}
