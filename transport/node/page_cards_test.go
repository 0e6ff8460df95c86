package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

const cardsFolder = "../client/referee/cards"

// cardGame is what the game of cards shows to all.
type cardGame struct {
	Deck, Turn  string
	Players     []string
	Trick, Last []int
	Tricks      map[string]int
}

func (g *cardGame) taken() (n int) {
	for _, tricks := range g.Tricks {
		n += tricks
	}
	return n
}

// buildCards builds the program that its README has people run.
func buildCards(t *testing.T) (program string) {
	t.Helper()
	for _, name := range []string{"main.go", "game.go", "index.html", "cards.css"} { // so that go test sees when a cached result is out of date
		_, err := os.ReadFile(filepath.Join(cardsFolder, name))
		redistest.OK(t, err)
	}
	program = filepath.Join(t.TempDir(), "cards")
	if out, err := exec.Command("go", "build", "-o", program, cardsFolder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// cardServer is a referee with its page.
type cardServer struct {
	cmd *exec.Cmd
	url string
	log chan string
}

func startCards(t *testing.T, program, listen string, args ...string) *cardServer {
	t.Helper()
	s := &cardServer{exec.Command(program, append([]string{"-listen", listen}, args...)...), "http://" + listen + "/", make(chan string, 1000)}
	out, err := s.cmd.StderrPipe()
	redistest.OK(t, err)
	redistest.OK(t, s.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.log <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-read
		_ = s.cmd.Wait()
		if t.Failed() {
			for len(s.log) > 0 {
				t.Log(<-s.log)
			}
		}
	})
	redistest.Until(t, "the page is there", func() bool {
		c, err := net.Dial("tcp", listen)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return s
}

// cardWatch is done in the page before it is loaded: it keeps each frame, and each card that is shown outside the trick. While plays is true, it
// plays: one card after the other, until it is not refused.
const cardWatch = `
	window.frames_ = []
	window.shown = []
	let n = 0
	window.WebSocket = class extends WebSocket {
		constructor(url, protocols) {
			super(url, protocols)
			window.node = String(url)
			this.addEventListener("message", ({ data }) => window.frames_.push(data))
		}
	}
	new MutationObserver((records) => {
		for (const { id, textContent } of document.body?.children ?? []) {
			if (id !== "trick") window.shown.push(...(textContent.match(/[♣♦♥♠][2-9TJQKA]/g) ?? []))
		}
		const cards = document.querySelectorAll("#hand:not([inert]) button:enabled")
		if (window.plays && cards.length > 0 && records.some(({ target }) => target.id === "hand")) cards[n++ % cards.length].click()
	}).observe(document, { subtree: true, childList: true, characterData: true })`

// cardPlayer is a player at a page.
type cardPlayer struct {
	*tab
	user   string
	frames []string
	shown  []string
}

func sitDown(b *browser, name, url string) *cardPlayer {
	b.t.Helper()
	p := &cardPlayer{tab: b.open(name, "about:blank")}
	_, err := chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: cardWatch})
	redistest.OK(b.t, err)
	p.do(chromedp.Navigate(url))
	p.until("a table", `document.querySelectorAll("#players li").length > 0`)
	p.user = unquote(b.t, p.eval(`JSON.parse(atob(JSON.parse(sessionStorage.player).token.split(".")[1])).sub`))
	return p
}

// collect keeps what the page has seen since it was loaded.
func (p *cardPlayer) collect() {
	p.t.Helper()
	for expression, list := range map[string]*[]string{"frames_": &p.frames, "shown": &p.shown} {
		var more []string
		redistest.OK(p.t, json.Unmarshal([]byte(p.eval(`window.`+expression+`.splice(0)`)), &more))
		*list = append(*list, more...)
	}
}

// cardBot sits down by the Go client, and plays, unless it is held: one card after the other, until it is not refused. The clock
// plays for who is held.
func cardBot(t *testing.T, ctx context.Context, c *client.Client, user string, held *atomic.Bool) *client.Room {
	t.Helper()
	at, err := c.Match(ctx, map[string]string{"game": "cards"}, room.Settings{Capacity: 4})
	redistest.OK(t, err)
	played := make(chan struct{})
	t.Cleanup(func() { <-played })
	go func() {
		defer close(played)
		n, asked := 0, false
		for change := range at.Changes(ctx) {
			if change.Type == client.ChangeSnapshot || change.Type == protocol.ChangeData || change.Type == protocol.ChangeMessage && change.User == "referee" {
				asked = false
			}
			var g cardGame
			var hand []int
			if err := errors.Join(at.Data().Decode(&g), at.Private().Decode(&hand)); err != nil {
				t.Error(err)
			}
			if asked || change.More || g.Turn != user || len(hand) == 0 || held.Load() {
				continue
			}
			n, asked = n+1, true
			_ = at.Propose(ctx, hand[n%len(hand)]) // the clock takes care of what is lost
		}
	}()
	return at
}

// cardWitness is an admin, who sees everything.
type cardWitness struct {
	mu    sync.Mutex
	game  cardGame                    // guarded by mu
	hands map[string][]int            // guarded by mu: as they are
	dealt map[string]map[string][]int // guarded by mu: by deck and user
}

func (w *cardWitness) watch(t *testing.T, ctx context.Context, at *client.Room) {
	w.hands, w.dealt = map[string][]int{}, map[string]map[string][]int{}
	over := make(chan struct{})
	t.Cleanup(func() { <-over })
	go func() {
		defer close(over)
		for change := range at.Changes(ctx) {
			if err := w.see(change); err != nil {
				t.Error(err)
			}
		}
	}()
}

func (w *cardWitness) see(change client.Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch change.Type {
	case protocol.ChangeData:
		w.game = cardGame{}
		return change.Data.Decode(&w.game)
	case protocol.ChangePrivate: // comes behind the data of the same version
		var hand []int
		err := change.Data.Decode(&hand)
		w.hands[change.User] = hand
		dealt := w.dealt[w.game.Deck]
		if dealt == nil {
			dealt = map[string][]int{}
			w.dealt[w.game.Deck] = dealt
		}
		if _, there := dealt[change.User]; !there {
			dealt[change.User] = hand
		}
		for _, card := range hand {
			if !slices.Contains(dealt[change.User], card) {
				err = errors.Join(err, fmt.Errorf("%s has got %d besides %v", change.User, card, dealt[change.User]))
			}
		}
		return err
	}
	return nil
}

func (w *cardWitness) until(t *testing.T, what string, is func(g cardGame) bool) (g cardGame) {
	t.Helper()
	redistest.Until(t, what, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		g = w.game
		return is(g)
	})
	return g
}

// toTheEnd waits until all tricks of a game are taken, which is of another deck than before.
func (w *cardWitness) toTheEnd(t *testing.T, before string) (g cardGame) {
	t.Helper()
	for n := range 5 { // of which each may take a while, by the clock
		w.until(t, fmt.Sprintf("%d tricks", n+1), func(g cardGame) bool { return g.Deck != before && g.taken() > n })
	}
	g = w.until(t, "the end", func(g cardGame) bool { return g.Deck != before && g.Turn == "" })
	redistest.Equal(t, "tricks", g.taken(), 5)
	return g
}

// faces returns how the page shows the cards that a user has.
func (w *cardWitness) faces(user string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return faces(slices.Sorted(slices.Values(w.hands[user])))
}

func faces(cards []int) (text string) {
	for _, card := range cards {
		text += string([]rune("♣♦♥♠")[card/13]) + "23456789TJQKA"[card%13:card%13+1]
	}
	return text
}

// check fails the test if a player's page has got, or shown, what another one has in the hand.
func (w *cardWitness) check(p *cardPlayer) {
	p.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	own := ""
	for _, hands := range w.dealt {
		own += faces(hands[p.user])
	}
	for _, face := range p.shown {
		if !strings.Contains(own, face) {
			p.t.Errorf("the page of %s has shown %s, and it had %s", p.name, face, own)
		}
	}
	if len(p.shown) == 0 || len(p.frames) == 0 {
		p.t.Errorf("%s: %d cards were shown, and %d frames came", p.name, len(p.shown), len(p.frames))
	}
	for _, text := range p.frames {
		var frame map[string]any
		redistest.OK(p.t, json.Unmarshal([]byte(text), &frame))
		if leaks(frame, p.user) {
			p.t.Errorf("%s got %s", p.name, text)
		}
	}
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

// Four play cards, two of them at pages that two referees serve. A node is killed, and the referee: the other one goes on. The clock
// plays for who is slow. The host has another game begin, during which a player loads the page again. Nobody sees another's cards.
func TestPage_Cards(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	program, server := buildCards(t), redistest.Start(t)
	key, token := keyed(t)
	pages := []string{roomdtest.FreeAddr(t), roomdtest.FreeAddr(t)}
	nodes := launch(t, 3, server.URL(), "--auth-secret-file", key, "--node-ttl", "3s", "--allow-origin", "http://"+pages[0], "--allow-origin", "http://"+pages[1])
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, "ws://"+n.addr+"/ws")
	}
	args := append([]string{"-key", key, "-redis", server.URL(), "-clock", "2s"}, addresses...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	connect := func(user string, to []string, more ...string) *client.Client {
		c, err := client.Connect(ctx, client.Config{Addresses: to, Token: client.StaticToken(token(user, more...))})
		redistest.OK(t, err)
		t.Cleanup(c.Close)
		return c
	}

	first := startCards(t, program, pages[0], args...)
	one := sitDown(b, "one", first.url)
	for !strings.Contains(redistest.Receive(t, first.log, "a referee"), "is the referee") {
	}
	second := startCards(t, program, pages[1], args...)
	two := sitDown(b, "two", second.url)
	var held atomic.Bool
	bot := cardBot(t, ctx, connect("bot", addresses), "bot", &held)
	cardBot(t, ctx, connect("tob", addresses), "tob", &held)
	two.until("four players", `document.querySelectorAll("#players li").length === 4`)
	doomed := slices.Index(addresses, unquote(t, two.eval("node")))
	var w cardWitness
	at, err := connect("witness", slices.Delete(slices.Clone(addresses), doomed, doomed+1), "--role", "admin").Watch(ctx, bot.ID())
	redistest.OK(t, err)
	w.watch(t, ctx, at)

	one.eval("plays = true")
	one.click("#deal")
	w.until(t, "a trick", func(g cardGame) bool { return g.taken() > 0 })
	redistest.OK(t, first.cmd.Process.Kill())
	nodes[doomed].stop(syscall.SIGKILL)
	g := w.toTheEnd(t, "")

	two.until("no game, which it may not have begin", `document.querySelectorAll("#hand button").length === 0 && document.getElementById("deal").hidden`)
	held.Store(true)
	one.click("#deal")
	two.until("a hand", `document.querySelectorAll("#hand button").length > 0`)
	two.collect()
	two.do(chromedp.Reload())
	redistest.Until(t, "the hand is there again", func() bool {
		hand := unquote(t, two.eval(`document.getElementById("hand").textContent`))
		return hand != "" && hand == w.faces(two.user)
	})
	for _, size := range sizes[:2] {
		two.do(chromedp.EmulateViewport(size.width, size.height))
		redistest.Equal(t, "too wide by", two.eval(`document.documentElement.scrollWidth - innerWidth`), "0")
		two.shot("cards-" + size.name)
	}
	held.Store(false)
	two.eval("plays = true")
	w.toTheEnd(t, g.Deck)
	two.until("who has won", `/ won. To deal/.test(document.getElementById("news").textContent)`)

	two.collect()
	server.Pause()
	two.do(chromedp.Reload())
	two.until("that there is no table now", `document.getElementById("news").textContent.includes("unavailable")`)
	server.Resume()
	two.until("the table", `document.querySelectorAll("#players li").length > 0`)

	for _, hands := range w.dealt {
		var all []int
		for _, hand := range hands {
			all = append(all, hand...)
		}
		slices.Sort(all)
		if len(slices.Compact(slices.Clone(all))) != 20 || len(all) != 20 {
			t.Errorf("these were dealt: %v", hands)
		}
	}
	redistest.Equal(t, "decks", len(w.dealt), 2)
	for _, p := range []*cardPlayer{one, two} {
		p.collect()
		w.check(p)
		p.silent("WebSocket connection to", "ERR_CONNECTION_REFUSED", "net::ERR_", "404", "unavailable")
	}
}
