package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

// startCards builds the game of cards, as its README has people do, and starts its referee with the page.
func startCards(t *testing.T, listen string, args ...string) {
	t.Helper()
	const folder = "../client/referee/cards"
	for _, name := range []string{"main.go", "game.go", "index.html", "cards.css"} {
		_, err := os.ReadFile(filepath.Join(folder, name)) // so that go test sees when a cached result is out of date
		redistest.OK(t, err)
	}
	program := filepath.Join(t.TempDir(), "cards")
	if out, err := exec.Command("go", "build", "-o", program, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program, append([]string{"-listen", listen}, args...)...)
	redistest.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	redistest.Until(t, "the page is there", func() bool {
		c, err := net.Dial("tcp", listen)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// cardWatch is done in the page before it is loaded: it keeps each frame, and each card that is shown outside the
// trick. While plays is true, it plays: one card after the other, until it is not refused.
const cardWatch = `
	window.frames_ = []
	window.shown = []
	let n = 0
	window.WebSocket = class extends WebSocket {
		constructor(url, protocols) {
			super(url, protocols)
			this.addEventListener("message", ({ data }) => window.frames_.push(data))
		}
	}
	new MutationObserver((records) => {
		for (const { id, textContent } of document.body?.children ?? []) {
			if (id !== "trick") window.shown.push(...(textContent.match(/[♣♦♥♠][2-9TJQKA]/g) ?? []))
		}
		const cards = all("#hand:not([inert]) button:enabled")
		if (window.plays && cards.length > 0 && records.some(({ target }) => target.id === "hand"))
			cards[n++ % cards.length].click()
	}).observe(document, { subtree: true, childList: true, characterData: true })`

// cardPlayer is a player at a page.
type cardPlayer struct {
	*tab
	user  string
	shown map[string]bool // cards outside the trick
}

func sitDown(b *browser, name, url string) *cardPlayer {
	b.t.Helper()
	p := &cardPlayer{tab: b.open(name, "about:blank"), shown: map[string]bool{}}
	_, err := chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: cardWatch})
	redistest.OK(b.t, err)
	p.do(chromedp.Navigate(url))
	p.until("a table", `all("#players li").length > 0`)
	p.user = unquote(b.t, p.eval(`JSON.parse(atob(JSON.parse(sessionStorage.player).token.split(".")[1])).sub`))
	return p
}

// collect looks at what the page has got and shown since it was loaded: no frame has what others have in the hand.
func (p *cardPlayer) collect() {
	p.t.Helper()
	var frames, shown []string
	redistest.OK(p.t, json.Unmarshal([]byte(p.eval(`window.frames_.splice(0)`)), &frames))
	redistest.OK(p.t, json.Unmarshal([]byte(p.eval(`window.shown.splice(0)`)), &shown))
	for _, card := range shown {
		p.shown[card] = true
	}
	for _, text := range frames {
		var frame map[string]any
		redistest.OK(p.t, json.Unmarshal([]byte(text), &frame))
		redistest.ErrorIf(p.t, leaks(frame, p.user), "%s got %s", p.name, text)
	}
	redistest.ErrorIf(p.t, len(frames) == 0, "%s got no frame", p.name)
}

// leaks reports whether a part of a frame has cards besides those on the table and the user's own.
func leaks(part any, user string) bool {
	switch part := part.(type) {
	case map[string]any:
		who, named := part["user"].(string)
		switch {
		case named && who == user:
			return false // what it holds, says or is told to have done
		case named && part["type"] == protocol.ChangePrivate:
			return true
		}
		for name, inner := range part {
			switch name {
			case user, "trick", "last": // in a list private data are by user
			case "data":
				if _, card := inner.(float64); card || leaks(inner, user) { // what others propose
					return true
				}
			default:
				if leaks(inner, user) {
					return true
				}
			}
		}
	case []any:
		for _, inner := range part {
			if _, card := inner.(float64); card || leaks(inner, user) {
				return true
			}
		}
	}
	return false
}

// Four pages play a game of cards on two nodes. One page is loaded again in the middle, and once more while Redis
// is away. No page gets, or shows, a card that another one has in the hand.
func TestPage_Cards(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	server, listen := redistest.Start(t), roomdtest.FreeAddr(t)
	key, _ := keyed(t)
	nodes := launch(t, 2, server.URL(), "--auth-secret-file", key, "--allow-origin", "http://"+listen)
	startCards(t, listen, "-key", key, "-redis", server.URL(), "-clock", "2s", nodes[0].url(), nodes[1].url())
	var players []*cardPlayer
	for i := range 4 {
		players = append(players, sitDown(b, fmt.Sprint("player", i), "http://"+listen+"/"))
	}
	one, two := players[0], players[1]
	two.until("four players", `all("#players li").length === 4`)
	for _, p := range players[2:] {
		p.eval("plays = true")
	}
	one.click("#deal")
	const hand = `all("#hand button").length > 0`
	two.until("a hand", hand)
	two.collect()
	two.do(chromedp.Reload())
	two.until("the hand again", hand)
	for _, size := range sizes[:2] {
		two.do(chromedp.EmulateViewport(size.width, size.height))
		redistest.Equal(t, "too wide by", two.eval(`document.documentElement.scrollWidth - innerWidth`), "0")
		two.shot("cards-" + size.name)
	}
	two.eval("plays = true") // the clock plays for the first one
	two.until("who has won", `/ won. To deal/.test(text("news"))`)
	dealt := map[string]bool{}
	for _, p := range players {
		p.collect()
		redistest.Equal(t, "cards that "+p.name+" has shown", len(p.shown), 5)
		maps.Copy(dealt, p.shown)
	}
	redistest.Equal(t, "different cards", len(dealt), 20)

	server.Pause()
	two.do(chromedp.Reload())
	two.until("that there is no table now", `text("news").includes("unavailable")`)
	server.Resume()
	two.until("the table", `all("#players li").length > 0`)
	for _, p := range players {
		p.silent("WebSocket connection to", "net::ERR_", "404", "unavailable")
	}
}

// The trial game of the client's README is a program that three players can play, on different nodes. While two
// wait for the third the node of one is killed, and starts again.
func TestTrialGame_Plays(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	readme, err := os.ReadFile("../client/README.md")
	redistest.OK(t, err)
	program := regexp.MustCompile("(?s)```go\n(// Dice.*?)```").FindSubmatch(readme)
	redistest.FatalIf(t, program == nil, "the README has no trial game")
	if lines := strings.Count(string(program[1]), "\n"); lines > 100 {
		t.Errorf("the trial game has %d lines", lines)
	}
	dir := t.TempDir()
	source, dice := filepath.Join(dir, "dice.go"), filepath.Join(dir, "dice")
	redistest.OK(t, os.WriteFile(source, program[1], 0o600))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dice, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	nodes := launch(t, 2, redistest.Start(t).URL())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	names := []string{"ann", "bob", "cy"}
	said := make([]string, len(names))
	var players sync.WaitGroup
	t.Cleanup(players.Wait)
	play := func(i int) {
		players.Go(func() {
			out, err := exec.CommandContext(ctx, dice, "ws://"+nodes[i%2].addr+"/ws", "table-7", names[i],
				"3").CombinedOutput()
			if said[i] = string(out); err != nil {
				t.Errorf("%s: %v\n%s", names[i], err, out)
			}
		})
	}
	play(0)
	play(1)
	observer := nodes[1].player("observer", nil)
	redistest.Until(t, "two are ready", func() bool {
		reply, err := observer.Do(ctx, protocol.Request{Action: protocol.ActionUsers, Room: "table-7"})
		return err == nil && len(reply.Users) == 2 && reply.Users[0].Ready && reply.Users[1].Ready
	})
	nodes[0].stop(syscall.SIGKILL)
	nodes[0].start()
	play(2)
	players.Wait()
	if t.Failed() {
		return
	}
	starts, winner := 0, ""
	for i, text := range said {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if lines[0] == names[i]+" starts the game" {
			starts++
			lines = lines[1:]
		}
		if winner == "" {
			winner = lines[0]
		}
		redistest.ErrorIf(t, len(lines) != 1 || lines[0] != winner,
			"%s saw %q, another player %q", names[i], lines, winner)
	}
	redistest.ErrorIf(t, starts != 1, "%d players started the game", starts)
	checkWinner(t, winner, names)
}

// checkWinner checks that each of the players has rolled once, and that the winner has the most.
func checkWinner(t *testing.T, line string, names []string) {
	t.Helper()
	found := regexp.MustCompile(`^(\w+) wins: \[(\w+) (\w+) (\w+)\] rolled \[([1-6]) ([1-6]) ([1-6])\]$`).FindStringSubmatch(line)
	redistest.FatalIf(t, found == nil, "the game ended with %q", line)
	order, rolls := found[2:5], found[5:]
	redistest.ErrorIf(t, !slices.Equal(slices.Sorted(slices.Values(order)), names), "%v rolled", order)
	if best := slices.Index(rolls, slices.Max(rolls)); order[best] != found[1] {
		t.Error(fmt.Sprint(found[1], " is said to win, not ", order[best]))
	}
}
