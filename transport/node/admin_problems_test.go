package node

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
)

// inView is an expression: an element is wholly in the window, and nothing covers its beginning.
func inView(element string) string {
	return `((element) => {
		const box = element.getBoundingClientRect()
		const top = document.elementFromPoint(box.left + 8, box.top + 8)
		return box.height > 0 && box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight && box.right <= innerWidth &&
			(element.contains(top) || top.contains(element))
	})(` + element + `)`
}

// problem is an expression: the line about a problem on the overview.
func problem(title string) string {
	return `[...all("#problems-list .problem")].find((line) => line.firstChild.textContent === ` + quote(title) + `)`
}

// From the page as it opens, one click leads to what is wrong with a room, a node and a setting, on a desk and on a
// phone.
func TestOperatorsPage_OneClickToAProblem(t *testing.T) {
	redistest.Thorough(t)
	script := axe(t)
	b := startBrowser(t)
	server := redistest.Start(t)
	nodes, admins := operated(t, 2, server.URL(), "--node-ttl", "5m")
	third := prepare(t, server.URL(), "--node-ttl", "5m", "--rate", "7/s")
	third.start()
	const room = "a-very-long-room-id-of-a-tournament.quarter-final.2026-11-24_bbb" // 64
	join(t, nodes[0].player("李四", nil), room)
	join(t, nodes[1].player(hostile, nil), room)
	p := b.open("operator", "http://"+admins[0]+"/admin")
	p.until("nothing wrong with the room", `first('.tile[data-check="seats"]').dataset.state === "good" && `+
		rowOf("nodes-rows", third.addr)+`.dataset.state === "up"`)
	redis, ctx := server.Client(), t.Context()
	redis.HSet(ctx, "Room:"+room+":Users", hostile, redis.HGet(ctx, "Room:"+room+":Users", "李四").Val())
	_ = third.cmd.Process.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { _ = third.cmd.Process.Signal(syscall.SIGCONT) })
	name := unquote(t, p.eval(rowOf("nodes-rows", third.addr)+`.querySelector("code").textContent`))
	shown := func(id, words string) string {
		return `[...all(` + quote(id) + `)].find((line) => line.textContent.includes(` +
			quote(words) + `))`
	}
	for _, size := range sizes {
		p.do(chromedp.EmulateViewport(size.width, size.height))
		p.until("the size", fmt.Sprintf("innerWidth === %d", size.width))
		for _, tt := range []struct{ title, there string }{
			{"Room " + room + " differs", shown("#room-problems .problem", "A seat is taken twice: ")},
			{"Node " + third.addr, shown("#node-problems .problem", "silent since ")},
			{"Node " + third.addr, shown("#node-mark", "silent since ")},
			{"Setting rate differs", shown("#setting-rows th", "7/s")},
			{"Setting rate differs", shown("#setting-rows a", third.addr)},
		} {
			p.eval(`location.hash = ""; 0`)
			p.until(tt.title, problem(tt.title))
			redistest.ErrorIf(t, size.name != "small" && p.eval(inView(problem(tt.title))) != "true",
				"%s: one has to scroll for %q", size.name, tt.title)
			p.fits(size.name + ", overview")
			p.click(`#problems-list li:nth-child(` + p.eval(
				`[...all("#problems-list .problem")].indexOf(`+problem(tt.title)+`) + 1`) + `) a`)
			// the hidden view may have it already
			p.until(fmt.Sprintf("what is wrong behind %q, without scrolling", tt.title), inView(tt.there))
			p.fits(size.name + ", " + tt.title)
			if wide := p.eval(`document.documentElement.scrollWidth - innerWidth`); wide != "0" {
				t.Errorf("%s, %s: %s px too wide", size.name, tt.title, wide)
			}
			p.shot(fmt.Sprintf("problem-%s-%.7s", size.name, tt.title))
		}
	}
	if found := p.eval(`all("main img").length`); found != "0" {
		t.Errorf("the hostile name is not a text: %s images", found)
	}
	p.eval(script + "; 0")
	for _, view := range []string{"", "room=" + room, "node=" + name, "setting=rate"} {
		p.eval(`location.hash = ` + quote(view) + `; 0`)
		p.until("the view", `first(".view:not([hidden]) .problem, #view-setting:not([hidden])")`)
		p.barriers(view)
	}
	p.silent()
}

// manyNodes is what /api/nodes says of n nodes. Each has its own version, is behind with a webhook, has settings of
// its own, and names 20 rooms that differ and 20 that wait.
func manyNodes(n int) string {
	var nodes []string
	for i := range n {
		var differs, waits []string
		for r := range 20 {
			id := fmt.Sprintf("%s-%d-%d", strings.Repeat("W", 50), i, r)
			differs = append(differs, fmt.Sprintf(`{"room":%q,"what":%s}`, id, quote(hostile+strings.Repeat("长", 90))))
			waits = append(waits, fmt.Sprintf(`{"room":%q,"actions":3,"ms":%d}`, id, 1000+r))
		}
		nodes = append(nodes, fmt.Sprintf(`{"node":"node%d","address":"roomd-7d9f8c6b5-%d.roomd.production.svc.cluster.local:8080","settings":{"grace":"%ds","a_setting_with_a_very_long_name":%q},
			"version":"v1.2.3-0.20261124063908-abcdef%06d+dirty","started":1,"draining":false,"age_ms":100,"self":%t,
			"load":{"connections":50000,"max_connections":50000,"rooms":12345,"members":50000,"watchers":0,"graces":0,"queue":99999,"busy_rooms":20,"goroutines":1,"memory_bytes":9999999999},
			"totals":{"actions":1,"failed":0,"commits":1,"lock_waits":0,"lock_wait_ms":0,"lock_holds":0,"lock_hold_ms":0},"p99":{"action_ms":123456.7,"lock_wait_ms":1,"lock_hold_ms":1},
			"waiting":[%s],"webhooks":[{"receiver":"https://hooks%d.example","lag_ms":3600000}],
			"checks":{"seats":{"checked":7,"rooms":25,"differs":[%s],"at":1},"copies":{"checked":7,"rooms":0,"differs":[],"at":1},"capacity":{"checked":7,"rooms":0,"differs":[],"at":1},"versions":{"checked":7,"rooms":0,"differs":[],"at":1}}}`,
			i, i, i, strings.Repeat("x", 10+i), i, i == 0, strings.Join(waits, ","), i, strings.Join(differs, ",")))
	}
	return `{"nodes":[` + strings.Join(nodes, ",") + `]}`
}

// Two hundred nodes with everything wrong are still one page: a few lines of each kind, and all of them on demand.
// No node at all is no good news either.
func TestOperatorsPage_ManyProblems(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	n, _ := startNode(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	p := b.open("operator", "http://"+n.AdminAddr()+"/admin#rooms")
	p.until("the rooms", `!byId("rooms-empty").hidden`)
	say := func(nodes string) {
		p.eval(`window.real ??= fetch; window.fetch = (path, options) => path` +
			` === "/api/nodes" ? Promise.resolve(new Response(` + quote(nodes) + `)) : real(path, options); 0`)
	}
	say(manyNodes(200))
	p.eval(`location.hash = ""; 0`)
	p.until("all nodes, and the one that is not among them any more",
		`all("#nodes-rows tr").length === 201`)
	p.until("a summary", `text("problems-count").startsWith("4,000 rooms differ, 1 node is silent or gone, 3 settings differ, 4,000 rooms wait for a lock, 200 webhooks are behind, at least 5 rooms more differ")`)
	for _, size := range sizes {
		p.do(chromedp.EmulateViewport(size.width, size.height))
		p.until("the size", fmt.Sprintf("innerWidth === %d", size.width))
		p.fits(size.name)
		if wide := p.eval(`document.documentElement.scrollWidth - innerWidth`); wide != "0" {
			t.Errorf("%s: %s px too wide", size.name, wide)
		}
		redistest.ErrorIf(t, size.name != "small" &&
			p.eval(inView(`first("#problems-list .problem")`)) != "true",
			"%s: one has to scroll for the first problem", size.name)
		p.shot("many-" + size.name)
	}
	p.until("a few of each", `all("#problems-list .problem").length === 13 && `+
		`all("#problems-list button").length === 3`)
	p.eval(`first("#problems-list button").click(); 0`)
	p.until("all rooms", `all('#problems-list [data-kind="room"]').length === 4000`)
	if at := p.eval(`document.activeElement === all('#problems-list [data-kind="room"]')[3]`); at != "true" {
		t.Error("the focus is not at the first of the new lines")
	}
	say(`{"nodes":[]}`)
	p.until("words about no nodes", `text("problems-count").includes("gone")`)
	p.silent()
}
