package node

import (
	"strings"
	"syscall"
	"testing"

	"roomd/lockmgr/redistest"
)

// The list of tables shows what happens without asking again and again, while the page is seen, and goes on when
// its node is back.
func TestPage_Lobby(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 2, redistest.Start(t).URL())
	p := b.open("lobby", "http://"+nodes[0].addr+"/")
	p.take("李四")
	p.until("no tables", `!document.getElementById("tables-empty").hidden`)
	other := nodes[1].player("张三", nil)
	table := func(id string) string {
		return `[...document.querySelectorAll("#tables a")].some((a) => a.textContent.includes("` + id + `"))`
	}
	join(t, other, "first")
	p.until("a table", table("first"))
	join(t, other, "second")
	p.until("another table", table("second")+` && document.getElementById("lobby-count").textContent === "2 tables"`)
	if asked := p.eval(`performance.getEntriesByType("resource").filter(({ name }) => name.includes("/api/rooms")).length`); asked != "0" {
		t.Errorf("%s answers about the rooms are over", asked)
	}
	const look = `Object.defineProperty(document, "hidden", { value: %, configurable: true }); document.dispatchEvent(new Event("visibilitychange")); 0`
	p.eval(strings.Replace(look, "%", "true", 1))
	p.until("the end of the answer", `performance.getEntriesByType("resource").filter(({ name }) => name.includes("/api/rooms")).length === 1`)
	join(t, other, "third")
	p.eval(strings.Replace(look, "%", "false", 1))
	p.until("the third table", table("third"))
	nodes[0].stop(syscall.SIGKILL)
	p.until("words about the list", `document.getElementById("lobby-count").textContent.includes("not up to date")`)
	join(t, other, "fourth")
	nodes[0].start()
	p.until("the fourth table", table("fourth")+` && document.getElementById("lobby-count").textContent === "4 tables"`)
	p.silent("Failed to load resource", "net::ERR_", "WebSocket connection")
}
