package node

import (
	"fmt"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// Every view of operators looks as it should, with names of all kinds.
func TestOperatorsPage_Looks(t *testing.T) {
	redistest.Thorough(t)
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
	p.until("three nodes with their load", `document.querySelectorAll('#nodes-rows tr[data-state="up"]').length === 3 && document.querySelectorAll('.tile[data-state="good"]').length === 4`)
	p.look("admin-overview")
	p.eval(rowOf("nodes-rows", third.addr) + `.querySelector("a").click(); 0`)
	p.until("the node", `document.getElementById("node-settings").textContent.includes("rate20/s: most nodes have 50/s")`)
	p.look("admin-node")
	p.eval(`location.hash = "setting=rate"; 0`)
	p.until("the values", `document.querySelectorAll("#setting-rows tr").length === 2`)
	p.look("admin-setting")
	p.eval(`location.hash = "charts"; 0`)
	p.until("lines", drawnLine)
	p.look("admin-charts-together")
	p.eval(`document.getElementById("charts-nodes").value = "*"; document.getElementById("charts-nodes").dispatchEvent(new Event("change")); 0`)
	p.look("admin-charts")
	p.eval(`location.hash = "rooms"; 0`)
	p.until("the rooms", `document.querySelectorAll("#rooms-rows tr").length === 15`)
	p.look("admin-rooms")
	p.eval(`location.hash = "room=42"; 0`)
	p.until("the members", `document.querySelectorAll("#members-rows tr").length === 6 && document.querySelectorAll("#journal-rows tr").length > 5`)
	p.look("admin-room")
	p.eval(`document.querySelector("#members-rows button").click(); 0`)
	p.until("the dialog", `document.getElementById("dialog").open`)
	p.look("admin-dialog")
	p.silent()
}
