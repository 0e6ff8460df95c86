package node

import (
	"fmt"
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

// Every view in both themes and three sizes: nothing is wider than the window. The pictures are
// for people to look at.
func TestPage_Looks(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL(), "--capacity", "8")
	p := b.open("李四", nodes[0].page("42"))
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
				p.shot(fmt.Sprintf("%s-%s-%s", view, theme, size.name))
			}
		}
		p.do(chromedp.EmulateViewport(1280, 800))
	}
	p.until("the form", `!document.getElementById("login").hidden`)
	look("login")
	p.take("李四")
	p.until("the table", `document.querySelectorAll(".seat").length === 8`)
	for i, name := range []string{"张三", "Ada Lovelace", "سارة", "王五", "Zoë"} {
		c := nodes[0].player(name, nil)
		join(t, c, "42")
		if i%2 == 0 {
			if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionReady, Room: "42", Value: true}); err != nil {
				t.Fatal(err)
			}
		}
		if i == 4 {
			if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionSay, Room: "42", Text: "Shall we begin?"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.click(`.seat[data-seat="6"]`)
	p.until("the own seat", own(6)+` && !document.getElementById("ready").hidden`)
	p.click("#ready")
	p.until("the mark", `document.querySelector('.seat[data-seat="6"]').dataset.ready === "true"`)
	look("table")
	join(t, nodes[0].player("someone", nil), "backgammon-7")
	p.eval(`location.hash = ""; 0`)
	p.until("the lobby", `document.querySelectorAll("#tables a").length === 2`)
	look("lobby")
	p.silent()
}
