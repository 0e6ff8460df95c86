package node

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	cdpnetwork "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

func (p *process) page(table string) string {
	return "http://" + p.addr + "/#table=" + table
}

// sits is a condition: who sits there, according to the page.
func sits(seat int, user string) string {
	return fmt.Sprintf(`first('.seat[data-seat="%d"][data-kind="taken"] .name').textContent === %s`,
		seat, quote(user))
}

func free(seat int) string {
	return fmt.Sprintf(`first('.seat[data-seat="%d"]').dataset.kind === "free"`, seat)
}

func own(seat int) string {
	return fmt.Sprintf(`first('.seat[data-seat="%d"]').dataset.own === "true"`, seat)
}

// atTable is a player who has come to a table by the page of a node.
func atTable(b *browser, node *process, table, user string) *tab {
	b.t.Helper()
	p := b.open(user, node.page(table))
	p.take(user)
	p.until("the table", `all(".seat").length > 0`)
	return p
}

// Players at two nodes see what the others do, and what is refused is said in words.
func TestPage_Table(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 2, redistest.Start(t).URL(), "--capacity", "2")
	one, other := atTable(b, nodes[0], "42", "李四"), atTable(b, nodes[1], "42", "张三")

	one.click(`.seat[data-seat="5"]`) // nobody has been here yet, so the page does not know the capacity
	one.until("words about the missing seat", `text("table-problem") === "This table has no seat 5."`)
	one.click(`.seat[data-seat="1"]`)
	one.until("the own seat", own(1)+` && all(".seat").length === 2`)
	other.until("the other's seat", sits(1, "李四"))
	one.click("#ready")
	other.until("the other's mark", `first('.seat[data-seat="1"]').dataset.ready === "true"`)

	other.click(`.seat[data-seat="1"]`)
	other.until("words about the taken seat", `text("table-problem").includes("Seat 1 is taken by")`)
	other.click("#sit")
	other.until("the own seat", own(0))
	third := atTable(b, nodes[0], "42", "王五")
	third.until("a full table", `byId("sit").ariaDisabled === "true" && text("centre-text").includes("full")`)

	other.do(chromedp.SendKeys("#say-text", "hello\n"))
	third.until("the message", `[...all("#talk .said")].some((line) => line.textContent === "张三 hello")`)

	one.click("#leave")
	other.until("a free seat", free(1))
	one.until("a free seat, by watching", free(1))
	if focus := unquote(t, one.eval(`document.activeElement.id`)); focus != "sit" {
		t.Errorf("after standing up the focus is on %q", focus)
	}
	third.click(`.seat[data-seat="1"]`)
	one.until("the third player", sits(1, "王五"))

	one.eval(`location.hash = ""; 0`)
	one.until("the table in the lobby", `[...all("#tables a")].some((a) => a.textContent.includes("42") && `+
		`a.textContent.includes("2 of 2 seats taken"))`)
	for _, p := range []*tab{one, other, third} {
		p.silent()
	}
}

// A request that another one was faster than is refused by the server, and the page says so.
func TestPage_SeatTaken(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL())
	p := atTable(b, nodes[0], "42", "李四")
	p.eval(`window.WebSocket.prototype.plain = WebSocket.prototype.send;
		WebSocket.prototype.send = function (frame) { this.plain(frame.replace('"seat":3', '"seat":2')) }; 0`)
	join(t, nodes[0].player("张三", nil), "42")
	join(t, nodes[0].player("王五", nil), "42")
	join(t, nodes[0].player("陈六", nil), "42")
	p.until("the others", sits(2, "陈六"))
	p.click(`.seat[data-seat="3"]`)
	p.until("words", `text("table-problem") === "Seat 3 has just been taken. Choose another one."`)
	p.silent()
}

// The node of a player is killed. When it is back, the page is connected again by itself, and the
// player is on the same seat.
func TestPage_NodeKilled(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 2, redistest.Start(t).URL(), "--node-ttl", "3s")
	one, other := atTable(b, nodes[0], "42", "李四"), atTable(b, nodes[1], "42", "张三")
	one.click(`.seat[data-seat="4"]`)
	other.until("the other's seat", sits(4, "李四"))
	nodes[0].stop(syscall.SIGKILL)
	one.until("the state", `text("state-text") === "reconnecting…"`)
	nodes[0].start()
	one.until("the connection", `text("state-text") === "connected"`)
	one.until("the seat", own(4)+` && first('.seat[data-seat="4"]').dataset.away === undefined`)
	one.click("#ready")
	other.until("the mark of who came back", sits(4, "李四")+
		` && first('.seat[data-seat="4"]').dataset.ready === "true"`)
	// A failed attempt is followed by a question by HTTP, which may find the node back already: 400.
	one.silent("WebSocket connection to", "ERR_CONNECTION_REFUSED", "net::ERR_", "400 (Bad Request)")
	other.silent()
}

// Redis is away: the page says so, beside the connection and at the table, and in time that it is back. Nothing
// says that the connection is lost, because it is not.
func TestPage_RedisAway(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	server := redistest.Start(t)
	p := atTable(b, launch(t, 1, server.URL())[0], "42", "李四")
	p.click("#sit")
	p.until("the own seat", own(0))
	quiet := p.eval(`getComputedStyle(first("#state .dot")).backgroundColor`)
	server.Kill()
	p.until("the state", `text("state-text") === "connected, but the server cannot reach Redis"`)
	p.until("words at the table", `text("centre-text").startsWith("The server cannot reach Redis.")`)
	p.until("words for screen readers", `text("live") === "The server cannot reach Redis."`)
	if warning := p.eval(`getComputedStyle(first("#state .dot")).backgroundColor`); warning == quiet || warning != p.eval(`getComputedStyle(first("#state")).color`) {
		t.Errorf("the mark of the state is %s, as if all were well or nothing known", warning)
	}
	server.Restart()
	p.until("the state", `text("state-text") === "connected"`)
	p.until("words at the table", `text("centre-text") === "You are the first one here."`)
	p.silent("503")
}

// A page that is loaded again while Redis is away has its seat when Redis is back.
func TestPage_LoadedAgainWithoutRedis(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	server := redistest.Start(t)
	p := atTable(b, launch(t, 1, server.URL(), "--grace", "1m")[0], "42", "李四")
	p.click(`.seat[data-seat="2"]`)
	p.until("the own seat", own(2))
	server.Pause()
	p.do(chromedp.Reload())
	p.until("words", `text("notice-text") === "The server cannot do what this page asks for. Trying again…"`)
	server.Resume()
	p.until("the seat", own(2)+` && byId("notice").hidden`)
	p.silent("503")
}

// A page that is loaded again has its name and its seat still; a second connection of the same user takes
// the seat over, and the page says so, and has a way back.
func TestPage_LoadedAgainAndReplaced(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL())
	p, watcher := atTable(b, nodes[0], "42", "李四"), atTable(b, nodes[0], "42", "张三")
	p.click(`.seat[data-seat="2"]`)
	p.until("the own seat", own(2))
	p.do(chromedp.Reload())
	p.until("the seat after loading", own(2)+` && text("state-text") === "connected"`)
	watcher.until("a player who is there", sits(2, "李四")+
		` && first('.seat[data-seat="2"]').dataset.away === undefined`)

	p.do(chromedp.Navigate("about:blank")) // the browser keeps the page, with what it has open
	watcher.until("a player who is away", `first('.seat[data-seat="2"]').dataset.away === "true"`)
	p.back()
	p.until("the seat after coming back", own(2)+` && text("state-text") === "connected"`)
	watcher.until("a player who is there", sits(2, "李四")+
		` && first('.seat[data-seat="2"]').dataset.away === undefined`)

	join(t, nodes[0].player("李四", nil), "42")
	p.until("why the seat is lost", elsewhere)
	p.eval(`byId("sit").click(); 0`) // the driver does not know the nodes of a page that was kept
	p.until("the seat", own(2))
	p.silent()
}

// elsewhere is a condition: the page says that its user sits there in another tab, and is connected.
const elsewhere = `text("table-problem").includes("another tab or window") &&
	text("state-text") === "connected"`

// Of two tabs of a user at three tables the second takes over the one where it sits down. The first keeps the
// others, and can take that one back.
func TestPage_TwoTabs(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 2, redistest.Start(t).URL(), "--capacity", "2")
	one := atTable(b, nodes[0], "A", "李四")
	at := func(table string) {
		t.Helper()
		one.eval(fmt.Sprintf(`location.hash = "table=%s"; 0`, table))
		one.until("table "+table, fmt.Sprintf(`first("#facts-list dd").textContent === %q && `+
			`!byId("table").hidden`, table))
	}
	for _, table := range []string{"A", "B", "C"} {
		at(table)
		one.click(`.seat[data-seat="0"]`)
		one.until("the own seat at "+table, own(0))
	}
	other := atTable(b, nodes[1], "A", "李四")
	other.until("the seat that the first tab has", sits(0, "李四"))
	other.click(`.seat[data-seat="0"]`)
	other.until("the own seat", own(0))
	for _, table := range []string{"B", "C"} {
		at(table)
		one.until("the seat that is left at "+table,
			own(0)+` && text("state-text") === "connected"`)
	}
	at("A")
	one.until("the seat that the second tab has", sits(0, "李四")+" && !("+own(0)+")")
	one.click(`.seat[data-seat="0"]`)
	one.until("the own seat", own(0))
	other.until("why the seat is lost", elsewhere)
	other.click("#sit")
	other.until("the own seat", own(0))
	one.until("why the seat is lost", elsewhere)
	one.silent()
	other.silent()
}

// Who becomes somebody else leaves at once. Who was away for longer than the grace is told so.
func TestPage_SomebodyElse(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL(), "--grace", "0s")
	p, watcher := atTable(b, nodes[0], "42", "李四"), atTable(b, nodes[0], "42", "张三")
	p.click("#sit")
	watcher.until("the player", sits(0, "李四"))
	p.click("#sign-out")
	watcher.until("a free seat", free(0))
	p.take("王五")
	p.until("the table", `all(".seat").length > 0 && !byId("table").hidden`)
	p.click("#sit")
	watcher.until("the new player", sits(0, "王五"))
	p.do(chromedp.Navigate("about:blank"))
	watcher.until("a free seat", free(0))
	p.do(chromedp.Navigate(nodes[0].page("42")))
	p.until("words", `text("table-problem").includes("away for too long")`)
	p.until("a free seat", free(0))
	p.silent()
}

// Whose page does not hear what the server is asks for a name all the same.
func TestPage_ServerDoesNotSay(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL())
	p := b.open("李四", "about:blank")
	_, err := chromedp.Call(p.ctx, cdpnetwork.SetBlockedURLs,
		cdpnetwork.SetBlockedURLsParams{URLPatterns: []*cdpnetwork.BlockPattern{{URLPattern: "*://*:*/page.json",
			Block: true}}})
	redistest.OK(t, err)
	p.do(chromedp.Navigate(nodes[0].page("42")))
	p.until("the question", `!byId("login").hidden`)
	if p.eval(`fetch("/page.json").then(() => true, () => false)`) != "false" {
		t.Fatal("the page can ask what the server is")
	}
	p.take("李四")
	p.until("the table", `all(".seat").length > 0`)
	p.silent("Failed to load resource")
}

// Names are text, whatever they look like, and stay within their seats.
func TestPage_NamesAsText(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL())
	names := []string{`<img src=x onerror=alert(1)>`, "سارة الطويلة جدا", "e" + strings.Repeat("\u0301\u0323", 15),
		"👩‍👩‍👧‍👦 family", strings.Repeat("W", 64), `"><script>1</script>`}
	p := atTable(b, nodes[0], "42", names[0])
	p.click("#sit")
	p.until("the own seat", sits(0, names[0]))
	for seat, name := range names[1:] {
		c := nodes[0].player(name, nil)
		join(t, c, "42")
		redistest.OK(t, redistest.Err(c.Do(t.Context(),
			protocol.Request{Action: protocol.ActionSay, Room: "42", Text: "<b>hello</b> from " + name})))
		p.until("the name", fmt.Sprintf(`first('.seat[data-seat="%d"] .name').textContent.normalize()`+
			` === %s.normalize()`, seat+1, quote(name)))
	}
	p.until("the messages", `all("#talk .said").length === 5`)
	if found := p.eval(`all("main img, main script, #talk b").length`); found != "0" {
		t.Errorf("%s elements were made of names or messages", found)
	}
	if wide := p.eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide != "0" {
		t.Errorf("names make the page %s px too wide", wide)
	}
	if spilt := p.eval(`[...all(".seat .name, .who bdi")].filter((name) => getComputedStyle(name).overflow !== "hidden").length`); spilt != "0" {
		t.Errorf("%s names can spill over what is beside them", spilt)
	}
	tall := p.eval(`Math.max(...[...all(".seat .name, #talk li")].map((e) => e.getBoundingClientRect().height))`)
	t.Logf("the tallest line with a name is %s px", tall)
	p.shot("names")
	p.silent()
}

// An operator throws a player out, and moves another one: the page says why, and follows.
func TestPage_WhoTookTheSeat(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	admin := roomdtest.FreeAddr(t)
	nodes := launch(t, 1, redistest.Start(t).URL(), "--admin-listen", admin)
	p := atTable(b, nodes[0], "42", "李四")
	p.click("#sit")
	p.until("the own seat", own(0))
	operate(t, admin, "/api/rooms/42/kick", `{"user":"李四","text":"too loud"}`)
	p.until("words", `text("table-problem").includes("You were sent away from this table. They said: “\u2068too loud\u2069”")`)
	p.until("a free seat", free(0))
	p.click("#sit")
	p.until("the own seat", own(0)+` && text("table-problem") === ""`)
	operate(t, admin, "/api/rooms/42/move", `{"users":["李四"],"to":"43"}`)
	p.until("the other table", `location.hash === "#table=43" && text("table-title") === "Table 43" && `+own(0))
	p.do(chromedp.Reload())
	p.until("the seat after loading", own(0)+` && text("state-text") === "connected"`)
	p.silent()
}

// A room of thousands: a part is drawn, the rest is counted, and the own seat is there.
func TestPage_LargeRoom(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	admin := roomdtest.FreeAddr(t)
	// the party does not come
	nodes := launch(t, 1, redistest.Start(t).URL(), "--admin-listen", admin, "--grace", "10m")
	for from := 0; from < 3008; from += 64 {
		var names []string
		for i := range 64 {
			names = append(names, fmt.Sprintf(`"player %d"`, from+i))
		}
		operate(t, admin, "/api/rooms/hall/seats", `{"users":[`+strings.Join(names, ",")+`]}`)
	}
	p := atTable(b, nodes[0], "hall", "李四")
	p.until("all players", `text("table-count") === "3,008 players"`)
	p.click("#sit")
	p.until("the own seat", own(3008))
	if drawn := p.eval(`all(".seat").length`); drawn != "40" {
		t.Errorf("%s seats are drawn, want 40", drawn)
	}
	if free := p.eval(`all('.seat[data-kind="free"]').length`); free != "0" {
		t.Errorf("%s chairs are drawn empty while players have no place", free)
	}
	if more := p.text("seats-more"); !strings.Contains(more, "2,969 more players") {
		t.Errorf("the rest is %q", more)
	}
	p.shot("large")
	p.silent()
}

// operate does something as an operator.
func operate(t *testing.T, admin, path, body string) {
	t.Helper()
	status, text, _ := ask(t, http.MethodPost, "http://"+admin+path, body)
	redistest.FatalIf(t, status >= 300, "%s: %d %s", path, status, text)
}
