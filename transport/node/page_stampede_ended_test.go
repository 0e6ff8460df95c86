package node

import (
	"strings"
	"syscall"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
)

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
			if (this.url.includes("/ws?user=") && frame.includes('"join"')) window.someone = new URL(this.url).searchParams.get("user")
			if (!this.url.includes("/ws?user=observer") || !frame.includes('"users"')) return send.call(this, frame)
			held++
			document.body.dataset.crowd = JSON.parse(frame).room
			const wait = setInterval(() => {
				if (!window.go) return
				clearInterval(wait)
				send.call(this, frame)
			}, 20)
		}
		document.getElementById("crowd").value = document.getElementById("crowd-seats").value = 8; 0`)
	p.click("#stampede-go")
	p.until("the crowd", `held === 1 && document.body.dataset.crowd`)
	operate(t, admin, "/api/rooms/"+unquote(t, p.eval(`document.body.dataset.crowd`))+"/kick", `{"user":`+p.eval(`someone`)+`}`)
	p.eval(`window.go = true; 0`)
	p.until("the result", `!document.getElementById("stampede-result").hidden || document.getElementById("stampede-step").textContent.includes("did not come")`)
	rows := p.rows()
	if rows["lost players"][0] != "0" || rows["were sent away since"][0] != "1" || rows["and are in the list"][0] != "7" || rows["same seat given again"][0] != "0" ||
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
			p.until("the question for a token", `!document.getElementById("login").hidden && document.getElementById("login-title").textContent === "Show a token"`)
			p.take(token("张三"))
		} else {
			p.until("the question for a name", `!document.getElementById("login").hidden && document.getElementById("login-title").textContent === "Take a name"`)
			p.take("王五")
		}
		p.until("the table", `document.querySelectorAll(".seat").length > 0 && document.getElementById("state-text").textContent === "connected"`)
	}
}
