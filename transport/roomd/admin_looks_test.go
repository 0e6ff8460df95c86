package roomd

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
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
			if _, err := c.Ready(t.Context(), "42", true); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 12 {
		join(t, nodes[0].player(fmt.Sprint("player ", i), nil), fmt.Sprint("chess-", i))
	}
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
				if view == "overview" {
					p.eval(`for (const row of document.querySelectorAll("#nodes-rows tr")) row.cells[3].style.minWidth = innerWidth < 640 ? "" : "16rem"; 0`)
					// A table of nodes that is too wide is scrolled, except on a phone; no column covers another.
					if hidden := p.eval(`[...document.querySelectorAll("#nodes-rows tr")].filter((row) => innerWidth < 640
						? [...row.cells].some((cell) => cell.getBoundingClientRect().right > innerWidth)
						: row.cells[11].getBoundingClientRect().left < row.cells[10].getBoundingClientRect().right - 1).length`); hidden != "0" {
						t.Errorf("%s, %s: %s nodes have a column that cannot be seen", theme, size.name, hidden)
					}
				}
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
	p.eval(`location.hash = "charts"; 0`)
	p.until("lines", drawnLine)
	p.eval(`document.getElementById("charts-nodes").value = "*"; document.getElementById("charts-nodes").dispatchEvent(new Event("change")); 0`)
	look("charts")
	p.eval(`location.hash = "rooms"; 0`)
	p.until("the rooms", `document.querySelectorAll("#rooms-rows tr").length === 14`)
	look("rooms")
	p.eval(`location.hash = "room=42"; 0`)
	p.until("the members", `document.querySelectorAll("#members-rows tr").length === 6 && document.querySelectorAll("#journal-rows tr").length > 5`)
	look("room")
	p.eval(`document.querySelector("#members-rows button").click(); 0`)
	p.until("the dialog", `document.getElementById("dialog").open`)
	look("dialog")
	p.silent()
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
