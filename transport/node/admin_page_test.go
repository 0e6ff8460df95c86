package node

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
	"roomd/room/coordinator"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

// operated are n nodes on one Redis, each with an address for operators.
func operated(t *testing.T, n int, redisURL string, flags ...string) (nodes []*process, admins []string) {
	t.Helper()
	for range n {
		admins = append(admins, roomdtest.FreeAddr(t))
		nodes = append(nodes, prepare(t, redisURL,
			append([]string{"--admin-listen", admins[len(admins)-1]}, flags...)...))
		nodes[len(nodes)-1].start()
	}
	return nodes, admins
}

// rowOf is an expression: the row of a table that begins with a text.
func rowOf(rows, begin string) string {
	return fmt.Sprintf(`[...all("#%s tr")].find((row) => row.querySelector("th").textContent`+
		`.startsWith(%s))`, rows, quote(begin))
}

// answer fills the open dialog and agrees to it.
func (p *tab) answer(fields map[string]string) {
	p.t.Helper()
	p.until("the dialog", `byId("dialog").open`)
	for name, value := range fields {
		p.eval(fmt.Sprintf(`byId("dialog-%s").value = %s; 0`, name, quote(value)))
	}
	p.click("#dialog-go")
}

// losses are those that a player was told of.
type losses struct {
	mu    sync.Mutex
	texts []string // guarded by mu
	some  chan struct{}
}

func (h *losses) event(e *protocol.Event) {
	if e.Event != protocol.EventLost {
		return
	}
	h.mu.Lock()
	h.texts = append(h.texts, e.Reason+" "+e.Text)
	h.mu.Unlock()
	select {
	case h.some <- struct{}{}:
	default:
	}
}

// next waits for a loss.
func (h *losses) next(t *testing.T, want string) {
	t.Helper()
	select {
	case <-h.some:
	case <-time.After(pagePatience):
		t.Fatalf("the player was not told: %s", want)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	redistest.Equal(t, "the player was told", h.texts[len(h.texts)-1], want)
}

const hostile = `<img src=x onerror=alert(1)>`

// An operator finds a room, kicks, bans and lets in again, and closes it; players are told.
func TestOperatorsPage_Room(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes, admins := operated(t, 2, redistest.Start(t).URL(), "--capacity", "4", "--journal", "100")
	told := &losses{some: make(chan struct{}, 1)}
	join(t, nodes[1].player(hostile, nil), "42")
	victim := nodes[1].player("李四", told.event)
	join(t, victim, "42")
	last := &losses{some: make(chan struct{}, 1)}
	join(t, nodes[0].player("Zoë", last.event), "42")
	for _, id := range []string{"chess-10", "chess-2"} {
		join(t, nodes[0].player("other", nil), id)
	}

	p := b.open("operator", "http://"+admins[0]+"/admin#rooms")
	p.until("the rooms, in the order of their numbers",
		`[...all("#rooms-rows th")].map((one) => one.textContent).join(" ") === "42 chess-2 chess-10" && `+
			`!text("rooms-count").includes("letters")`)
	crowd := nodes[0].player("crowd", nil)
	for i := range 50 {
		join(t, crowd, strings.Repeat("x", i+1))
	}
	p.until("that pages have another order", `text("rooms-count")`+
		`.startsWith("50 rooms on this page. Pages follow the letters of the ids")`)
	p.do(chromedp.SendKeys("#search-text", "4\n"))
	p.until("what was searched", `all("#rooms-rows tr").length === 1 && location.hash === "#rooms=4"`)
	p.click("#rooms-rows a")
	p.until("the members", `all("#members-rows tr").length === 3`)
	p.until("the journal", `all("#journal-rows tr").length > 0 && `+
		`first("#journal-rows tr").textContent.includes("Zoë")`)
	if found := p.eval(`all("main img").length`); found != "0" ||
		p.eval(rowOf("members-rows", hostile)+` !== undefined`) != "true" {
		t.Errorf("the hostile name is not a text: %s images", found)
	}

	p.eval(rowOf("members-rows", "李四") + `.querySelector("button").click(); 0`)
	p.until("words of what will happen", `text("dialog-about").startsWith("李四 loses the seat in room 42")`)
	p.answer(map[string]string{"text": strings.Repeat("loud", 51)})
	p.until("words about the length", `text("dialog-error") === "That is too long by 4 bytes."`)
	p.answer(map[string]string{"text": "too loud", "ban": "600"})
	told.next(t, "kicked too loud")
	p.until("the result", `text("result") === "\u2068李四\u2069 was kicked from room 42, and is kept out for 10 minutes."`)
	p.until("the members without that one", `all("#members-rows tr").length === 2`)
	p.until("the journal", `first("#journal-rows tr").textContent.includes("李四 was kicked: too loud")`)
	if _, err := victim.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err == nil {
		t.Error("who was banned comes in")
	}
	p.click("#room-unban")
	p.answer(map[string]string{"user": "李四"})
	p.until("the result", `text("result").endsWith("may come into room 42.")`)

	p.eval(rowOf("members-rows", "Zoë") + `.querySelector("button").focus(); 0`)
	p.click("#room-ban")
	p.answer(map[string]string{"user": ""})
	p.until("words about the name", `text("dialog-error").includes("Type the name")`)
	p.eval(`byId("dialog-cancel").click(); 0`)
	join(t, victim, "42") // takes the seat between the two
	p.until("the member again", `all("#members-rows tr").length === 3`)
	p.eval(rowOf("members-rows", "Zoë") + `.querySelector("button").focus(); 0`)
	operate(t, admins[1], "/api/rooms/42/release", `{"users":[`+quote(hostile)+`]}`) // the first row
	p.until("the members without the first", `all("#members-rows tr").length === 2`)
	if focus := unquote(t, p.eval(`document.activeElement.getAttribute("aria-label") ?? ""`)); focus != "Kick Zoë…" {
		t.Errorf("when another member left, the focus went to %q", focus)
	}

	p.until("who may watch", `text("facts").includes("Who may watch iteverybody who is not banned")`)
	p.put("/api/rooms/42", `{"capacity":4,"watch":"members"}`)
	p.until("who may watch now", `text("facts").includes("Who may watch itmembers")`)

	p.until("no host", `text("facts").includes("Hostthe room has none") && text("facts").includes("Timersnone")`)
	p.put("/api/rooms/42", `{"capacity":4,"watch":"members","host":"longest"}`)
	p.until("the host", `text("facts").includes("HostZoë") && `+
		`first("#journal-rows tr").textContent.includes("is the host now")`)
	p.put("/api/rooms/42/timers/turn", `{"in":5400000}`)
	p.until("the timer", `/Timersturn fires in 1 h \d+ min/.test(text("facts")) && `+
		`first("#journal-rows tr").textContent.includes("timer turn fires in 1 h ")`)
	p.eval(`fetch("/api/rooms/42/timers/turn", { method: "DELETE" }); 0`)
	p.until("its end", `first("#journal-rows tr").textContent.includes("timer turn was cancelled")`)

	p.click("#room-close")
	p.until("words of what will happen", `text("dialog-about").startsWith("2 members have to leave")`)
	p.answer(nil)
	last.next(t, "closed ")
	p.until("a closed room", `text("room-mark") === "closed" && !byId("room-mark").hidden && `+
		`!byId("members-empty").hidden`)
	p.silent()
}

// One node's page drains the other, shows which settings differ, who is silent, and goes on when its own node is back.
func TestOperatorsPage_Nodes(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	server := redistest.Start(t)
	url := server.URL()
	nodes, admins := operated(t, 2, url)
	third := prepare(t, url, "--rate", "7/s", "--node-ttl", "20s")
	third.start()
	p := b.open("operator", "http://"+admins[0]+"/admin")
	c := nodes[1].player("李四", nil)
	join(t, c, "42")
	p.until("three nodes", `all("#nodes-rows tr").length === 3`)
	p.until("the player", rowOf("nodes-rows", nodes[1].addr)+`.textContent.includes("1 of ")`)
	p.until("how long it is up", `/^\d+ m?s$/.test(`+rowOf("nodes-rows", third.addr)+`.children[2].textContent)`)
	for _, own := range []string{"rate 7/s", "node-ttl 20s"} { // by the names of the flags
		p.until("settings that differ", rowOf("nodes-rows", third.addr)+
			`.querySelector(".own").textContent.includes(`+quote(own)+`)`)
	}
	p.until("only its settings are marked", `[...all("#nodes-rows .own")]`+
		`.filter((own) => own.textContent !== "none").length === 1`)
	program, err := coordinator.New(server.Client(), coordinator.Options{})
	redistest.OK(t, err)
	redistest.OK(t, program.Start(t.Context()))
	p.until("a program without a server", `first('#nodes-rows [data-state="mute"] .address')?.textContent`+
		` === "a program without a server"`)
	_ = program.Close(context.WithoutCancel(t.Context()))
	p.until("three nodes again", `all("#nodes-rows tr").length === 3`)
	p.until("a first rate", `byId("checks").children.length === 4`)

	_ = third.cmd.Process.Signal(syscall.SIGSTOP)
	p.until("a silent node", rowOf("nodes-rows", third.addr)+`.textContent.includes("silent since ")`)
	_ = third.cmd.Process.Signal(syscall.SIGCONT)
	p.until("a node that reports", rowOf("nodes-rows", third.addr)+`.dataset.state === "up"`)

	p.eval(rowOf("nodes-rows", nodes[1].addr) + `.querySelector("a").click(); 0`)
	p.until("the node", `text("node-title") === `+quote(nodes[1].addr)+
		` && text("node-load").includes("Connections1 of ")`)
	p.click("#node-drain")
	p.until("words of what will happen", `text("dialog-about").includes("1 connection")`)
	p.answer(nil)
	p.until("the result", `text("result").includes("was asked to stop")`)
	select {
	case <-c.Done():
	case <-time.After(pagePatience):
		t.Fatal("the client is not asked to reconnect")
	}
	if err := nodes[1].cmd.Wait(); err != nil {
		t.Errorf("the node ended with %v", err)
	}
	p.until("a node that is gone", `["stopped", "gone"].includes(byId("view-node").dataset.state) && `+
		`byId("node-drain").disabled`)
	p.eval(`location.hash = "nodes"; 0`)
	p.until("no settings of who is gone", rowOf("nodes-rows", nodes[1].addr)+
		`?.querySelector(".own").textContent === "–"`)

	p.eval(`location.hash = "charts"; 0`)
	p.until("the charts", `all("#plots [role=img] canvas").length === 4 && `+drawnLine)
	nodes[0].stop(syscall.SIGKILL)
	p.until("words about the node", `text("notice-text").startsWith("This node does not answer")`)
	nodes[0].start()
	p.until("the node", `byId("notice").hidden && text("state-text") === "up to date"`)
	p.silent("Failed to load resource", "net::ERR_")
}

// drawnLine is true when the first chart has a line: many pixels that are blue.
const drawnLine = `(() => {
	const canvas = first("#plots canvas")
	if (!canvas) return false
	const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height })
			.getContext("2d", { willReadFrequently: true })
	copy.drawImage(canvas, 0, 0)
	const { data } = copy.getImageData(0, 0, canvas.width, canvas.height)
	let blue = 0
	for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200 && data[i + 2] - data[i] > 60) blue++
	return blue > 20
})()`

// Somebody alters Redis by hand: the tile says which room differs, until that is put right.
func TestOperatorsPage_Violation(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	server := redistest.Start(t)
	nodes, admins := operated(t, 2, server.URL())
	join(t, nodes[0].player("李四", nil), "42")
	join(t, nodes[1].player("张三", nil), "42")
	p := b.open("operator", "http://"+admins[0]+"/admin")
	tile := func(state string) string {
		return `first('.tile[data-check="seats"]').dataset.state === ` + quote(state)
	}
	p.until("checks", tile("good"))
	redis, ctx := server.Client(), t.Context()
	all := redis.HGetAll(ctx, "Room:42:Users").Val()
	redistest.FatalIf(t, len(all) != 2, "%v has %v", redis.Keys(ctx, "*").Val(), all)
	redis.HSet(ctx, "Room:42:Users", "张三", all["李四"])
	p.until("a violation", tile("bad")+` && first("#problems-list a strong").textContent === "Room 42 differs"`)
	p.until("what a screen reader says", `text("live").includes("Wrong now: Room 42 differs.")`)
	p.shot("violation")
	redis.HSet(ctx, "Room:42:Users", "张三", all["张三"])
	p.until("no violation", tile("good")+` && byId("problems").dataset.state === "good" && byId("badge").hidden`)
	p.until("what a screen reader says", `text("live").includes("No longer wrong: Room 42 differs")`)
	server.Pause()
	p.until("words about Redis", `text("notice-text").startsWith("Redis does not answer") && `+
		`text("state-text") === "not up to date"`)
	p.until("that nothing is known", `byId("problems").dataset.state === "idle" && `+
		`text("problems-count").startsWith("As of ")`)
	server.Resume()
	p.until("an answer", `byId("notice").hidden && text("state-text") === "up to date" && `+
		`byId("problems").dataset.state === "good"`)
	p.silent("Failed to load resource")
}

// Where a token is needed the page asks for it, keeps it, and says what is wrong with one.
func TestOperatorsPage_AsksForToken(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	secret, token := keyed(t)
	n, _ := startNode(t, "--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0", "--auth-secret-file", secret)
	_, port, _ := net.SplitHostPort(n.AdminAddr())
	p := b.open("operator", "http://127.0.0.1:"+port+"/admin#rooms")
	p.take(token("ops", "--role", "admin") + "x")
	p.until("the refusal", `text("login-error").includes("does not accept it")`)
	p.take(token("ops"))
	p.until("words about the role", `text("notice-text").includes("role is not admin")`)
	p.click("#notice-action")
	p.take(token("ops", "--role", "admin", "--rooms", "42"))
	p.until("words about rooms", `text("notice-text").includes("tokens allow all rooms") && `+
		`!byId("rooms-empty").hidden`)
	p.until("that nothing is known of the nodes", `byId("problems").dataset.state !== "good" && byId("badge").hidden`)
	p.click("#notice-action")
	p.take(token("ops", "--role", "admin"))
	p.until("the rooms", `!byId("rooms-empty").hidden && text("state-text") === "up to date"`)
	p.do(chromedp.Reload())
	p.until("the rooms after loading", `!byId("rooms-empty").hidden`)
	if stored := p.eval(`localStorage.length`); stored != "0" {
		t.Errorf("%s things are kept for longer than the tab", stored)
	}
	p.click("#sign-out")
	p.until("the question", `!byId("login").hidden`)
	p.silent("Failed to load resource")
}
