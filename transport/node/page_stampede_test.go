package node

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/node/roomdtest"
)

// rows returns the table that compares, by the names of its rows: roomd, then no lock.
func (p *tab) rows() map[string][2]string {
	p.t.Helper()
	text := unquote(p.t, p.eval(`[...all("#compare tr")].map((row) => [...row.children]`+
		`.map((cell) => cell.textContent).join("\t")).join("\n")`))
	rows := make(map[string][2]string)
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		rows[cells[0]] = [2]string{cells[1], cells[2]}
	}
	return rows
}

// A crowd at a table of six, which is the stampede's own: roomd lets six in and loses nobody. The list without a
// lock lets in more than it has seats, however fast the machine is. The result stays until the next one is there,
// also at another table.
func TestPage_Stampede(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL())
	p := atTable(b, nodes[0], "42", "李四")
	p.eval(`const send = WebSocket.prototype.send // a list without a lock is lucky at first: all come one by one
		let last = Promise.resolve()
		WebSocket.prototype.send = function (frame) {
			if (!this.url.includes("gap=0")) return send.call(this, frame)
			last = last.then(() => new Promise((answered) => {
				this.addEventListener("message", answered, { once: true })
				send.call(this, frame)
			}))
		}; 0`)
	for _, crowd := range []string{"40", "200"} {
		p.eval(`byId("crowd").value = ` + crowd + `; byId("crowd").oninput(); 0`)
		p.click("#stampede-go")
		p.until("the result", `!byId("stampede-result").hidden && text("stampede-step") === "" || `+
			`text("stampede-step").includes("did not come")`)
		rows := p.rows()
		t.Log(rows, p.text("verdict"))
		for name, want := range map[string]string{
			"told “you are in”": "6", "and are in the list": "6", "lost players": "0", "same seat given again": "0",
			"more players than seats": "0", "versions missing": "0",
		} {
			redistest.ErrorIf(t, rows[name][0] != want, "%s players: %s: %q, want %s", crowd, name, rows[name][0], want)
		}
		for _, row := range []string{"more players than seats", "lost players"} {
			if n, err := strconv.Atoi(rows[row][1]); err != nil || n == 0 {
				t.Errorf("%s players without a lock: %s: %q", crowd, row, rows[row][1])
			}
		}
		if gap := rows["added before writing"][1]; gap == "0 ms" ||
			!strings.Contains(p.text("verdict"), "seen with "+gap) {
			t.Errorf("%s players: %s added before writing; %s", crowd, gap, p.text("verdict"))
		}
		if hidden := p.eval(`byId("times").hidden`); hidden != "false" {
			t.Error("nothing says what the times are of")
		}
		p.do(chromedp.ScrollIntoView("#verdict"))
		p.shot("stampede-" + crowd)
		if n := p.eval(`all('.seat[data-kind="taken"]').length`); n != "0" {
			t.Errorf("%s of the crowd sit at the table that is shown", n)
		}
	}
	p.eval(`location.hash = "table=43"; 0`)
	p.until("another table", `document.title.startsWith("Table 43")`)
	redistest.ErrorIf(t, p.eval(`byId("stampede-result").hidden`) != "false", "the result is gone")
	p.silent()
}

// If a version were missing, or a player, the page would say so. Here the observer's connection is made to lie.
func TestPage_StampedeSeesWhatIsWrong(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 1, redistest.Start(t).URL())
	p := atTable(b, nodes[0], "42", "李四")
	p.eval(`const onmessage = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage") // which the observer uses
		const lie = (data) => data.replace(/"from":(\d+)/, (_, from) => '"from":' + (Number(from) + 1)).replace(/"users":\[\{[^}]*\},?/, '"users":[')
		Object.defineProperty(WebSocket.prototype, "onmessage", {
			set(listener) { onmessage.set.call(this, (event) => listener({ data: lie(event.data) })) } })
		byId("crowd").value = 12; 0`)
	p.click("#stampede-go")
	p.until("the result", `!byId("stampede-result").hidden || text("stampede-step").includes("did not come")`)
	rows := p.rows()
	if rows["lost players"][0] != "1" || rows["and are in the list"][0] != "5" ||
		rows["versions missing"][0] == "0" || !strings.Contains(p.text("verdict"), "defect") {
		t.Errorf("%v %s %s", rows, p.text("verdict"), p.text("stampede-step"))
	}
}

// Where players need tokens there is no crowd, and no list without a lock.
func TestPage_Tokens(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	secret, token := keyed(t)
	nodes := launch(t, 1, redistest.Start(t).URL(), "--auth-secret-file", secret)
	p := b.open("李四", nodes[0].page("42"))
	p.take("nonsense")
	p.until("words", `text("login-error").includes("not a JSON Web Token")`)
	p.take(token("李四") + "x")
	p.until("the server's refusal", `text("login-error").includes("does not accept it")`)
	p.take(token("李四", "--rooms", "42"))
	p.until("the table", `all(".seat").length > 0 && text("who-name") === "李四"`)
	p.click("#sit")
	p.until("the own seat", own(0))
	if p.eval(`byId("stampede-go").disabled`) != "true" ||
		!strings.Contains(p.text("stampede-step"), "token") {
		t.Error("the stampede is not off, or does not say why")
	}
	if status := p.eval(`fetch("/unguarded").then((answer) => answer.status)`); status != "404" {
		t.Errorf("/unguarded: %s", status)
	}
	if url := unquote(t, p.eval(`location.href`)); !strings.HasSuffix(url, "/#table=42") {
		t.Errorf("the address is %s", url)
	}
	p.do(chromedp.Reload())
	p.until("the seat after loading", own(0))
	p.eval(`location.hash = ""; 0`)
	p.until("the lobby", `all("#tables a").length === 1`)
	p.eval(`location.hash = "table=43"; 0`)
	p.until("words about another table", `text("notice-text").includes("does not let you")`)
	p.silent("Failed to load resource", "WebSocket connection to")
}

// Before a token expires the page asks for the next one, and the connection goes on. When the last
// one has expired the page says so, keeps what is being typed, and the next one brings the player back to the seat.
func TestPage_AsksForNextToken(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	secret, token := keyed(t)
	nodes := launch(t, 1, redistest.Start(t).URL(), "--auth-secret-file", secret)
	p := b.open("李四", nodes[0].page("42"))
	p.take(token("李四", "--ttl", "8s")) // of which 6 s to sit
	p.until("the table", `all(".seat").length > 0`)
	p.click("#sit")
	p.until("the own seat", own(0))
	p.until("the question", `text("notice-text").includes("expires soon")`)
	p.take(token("李四", "--ttl", "8s"))
	p.until("the answer", `byId("notice").hidden`)
	p.until("the second question", `text("notice-text").includes("expires soon")`)
	if p.eval(`byId("state").dataset.state === "connected"`) != "true" {
		t.Error("the newer token was not used in time")
	}
	p.eval(`byId("login-value").value = "half"; 0`)
	p.until("the end", `text("login-error").includes("has expired")`)
	if p.eval(`byId("login-value").value`) != `"half"` {
		t.Error("what was being typed is gone")
	}
	p.take(token("李四", "--ttl", "8s"))
	p.until("the seat", own(0)+` && text("state-text") === "connected"`)
	p.until("a third question", `text("notice-text").includes("expires soon") && !byId("login").hidden`)
	p.silent("Failed to load resource", "WebSocket connection to")
}

// keyed returns a file with a key, and what makes tokens with it.
func keyed(t *testing.T) (secret string, token func(user string, more ...string) string) {
	t.Helper()
	secret = filepath.Join(t.TempDir(), "secret")
	redistest.OK(t, os.WriteFile(secret, []byte(strings.Repeat("k", 40)), 0o600))
	return secret, func(user string, more ...string) string {
		t.Helper()
		var out strings.Builder
		if code := command(room.Rules{}, append([]string{"token", "--auth-secret-file", secret, "--user", user},
			more...), &out, os.Stderr); code != 0 {
			t.Fatal("no token")
		}
		return strings.TrimSpace(out.String())
	}
}

// Who is thrown out while a stampede is counted is not lost: the server has told the player. Here the
// observer asks for the list only after an operator was faster.
func TestPage_StampedeSentAway(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	admin := roomdtest.FreeAddr(t)
	nodes := launch(t, 1, redistest.Start(t).URL(), "--admin-listen", admin)
	p := atTable(b, nodes[0], "42", "李四")
	p.eval(`window.held = 0
		const send = WebSocket.prototype.send
		WebSocket.prototype.send = function (frame) {
			if (this.url.includes("/ws?user=") && frame.includes('"join"'))
				window.someone = new URL(this.url).searchParams.get("user")
			if (!this.url.includes("/ws?user=observer") || !frame.includes('"users"')) return send.call(this, frame)
			held++
			document.body.dataset.crowd = JSON.parse(frame).room
			const wait = setInterval(() => {
				if (!window.go) return
				clearInterval(wait)
				send.call(this, frame)
			}, 20)
		}
		byId("crowd").value = byId("crowd-seats").value = 8; 0`)
	p.click("#stampede-go")
	p.until("the crowd", `held === 1 && document.body.dataset.crowd`)
	operate(t, admin, "/api/rooms/"+unquote(t, p.eval(`document.body.dataset.crowd`))+"/kick",
		`{"user":`+p.eval(`someone`)+`}`)
	p.eval(`window.go = true; 0`)
	p.until("the result", `!byId("stampede-result").hidden || text("stampede-step").includes("did not come")`)
	rows := p.rows()
	if rows["lost players"][0] != "0" || rows["were sent away since"][0] != "1" ||
		rows["and are in the list"][0] != "7" || rows["same seat given again"][0] != "0" ||
		strings.Contains(p.text("verdict"), "defect") {
		t.Errorf("%v %s %s", rows, p.text("verdict"), p.text("stampede-step"))
	}
	p.silent()
}

// A server that is started again with a key is not the one that the page knew: it asks for a token, and the
// other way round.
func TestPage_ServerHasKeySince(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	secret, token := keyed(t)
	nodes := launch(t, 1, redistest.Start(t).URL())
	p := atTable(b, nodes[0], "42", "李四")
	flags := nodes[0].args
	for _, keyed := range []bool{true, false} {
		nodes[0].stop(syscall.SIGTERM)
		nodes[0].args = flags
		if keyed {
			nodes[0].args = append(flags[:len(flags):len(flags)], "--auth-secret-file", secret)
		}
		nodes[0].start()
		if keyed {
			p.until("the question for a token", `!byId("login").hidden && text("login-title") === "Show a token"`)
			p.take(token("张三"))
		} else {
			p.until("the question for a name", `!byId("login").hidden && text("login-title") === "Take a name"`)
			p.take("王五")
		}
		p.until("the table", `all(".seat").length > 0 && text("state-text") === "connected"`)
	}
}
