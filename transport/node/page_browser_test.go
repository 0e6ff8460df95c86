package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"roomd/lockmgr/redistest"
)

// pagePatience bounds each wait for a page.
const pagePatience = 20 * time.Second

// chromium is the one browser of all tests, which TestMain ends.
var chromium struct {
	start sync.Once
	ctx   context.Context
	err   error
	end   func()
}

// browser is the chromium for one test.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// startBrowser skips the test if no chromium is installed, or fails it if CI is set. Tests with a browser run
// beside each other.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	switch {
	case path == "" && os.Getenv("CI") != "":
		t.Fatal("chromium is not installed; in CI it has to be")
	case path == "":
		t.Skip("chromium is not installed: this test looks at the page in one")
	}
	t.Parallel()
	chromium.start.Do(func() {
		dir, err := os.MkdirTemp("", "roomd-chromium")
		redistest.OK(t, err)
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(dir),
			chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true),
			chromedp.Flag("no-proxy-server", true))
		alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, cancel := chromedp.NewContext(alloc)
		chromium.ctx, chromium.err = ctx, chromedp.Do(ctx)
		chromium.end = func() { // the browser has ended, and written what it writes, when the first two return
			_ = chromedp.Cancel(ctx)
			cancel()
			cancelAlloc()
			_ = os.RemoveAll(dir)
		}
	})
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
	return &browser{t, chromium.ctx}
}

// tab is a page in a tab with a storage of its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	name string

	mu       sync.Mutex
	troubles []string // guarded by mu: errors in the console, and violations of the policy
}

// wrongClock is a clock that is a day ahead, and is set ahead by an hour whenever somebody looks. It makes no
// difference to a page.
const wrongClock = `{ const now = Date.now; let ahead = 86_400_000; Date.now = () => now() + (ahead += 3_600_000) }`

// shortcuts are for the expressions of tests.
const shortcuts = `
	Object.assign(window, {
		byId: (id) => document.getElementById(id), text: (id) => document.getElementById(id).textContent,
		first: (selector) => document.querySelector(selector), all: (selector) => document.querySelectorAll(selector),
	})`

// open opens a page. Each tab is a browser context of its own, so tabs share no storage.
func (b *browser) open(name, url string) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	p := &tab{t: b.t, ctx: ctx, name: name}
	b.t.Cleanup(func() {
		if b.t.Failed() {
			p.shot("failed-" + name)
		}
		cancel()
	})
	redistest.OK(b.t, chromedp.Do(ctx))
	redistest.OK(b.t, chromedp.Listen(ctx, p.heard))
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: wrongClock + shortcuts})
	redistest.OK(b.t, err)
	p.do(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(url))
	return p
}

// heard collects what the console complains of.
func (p *tab) heard(event any) {
	trouble := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			trouble = e.Entry.Text + " " + e.Entry.URL
		}
	case *cdpruntime.EventExceptionThrown:
		trouble = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			trouble += " " + e.ExceptionDetails.Exception.Description
		}
	case *cdpruntime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			trouble = fmt.Sprint(e.Type)
		}
	}
	if trouble == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.troubles = append(p.troubles, trouble)
}

// silent fails the test if the console has complained, except of what contains one of the texts.
func (p *tab) silent(except ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
troubles:
	for _, trouble := range p.troubles {
		for _, text := range except {
			if strings.Contains(trouble, text) {
				continue troubles
			}
		}
		p.t.Errorf("%s: the console says: %s", p.name, trouble)
	}
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pagePatience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// eval returns what an expression is worth, or what its promise resolves to, as JSON.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pagePatience+5*time.Second)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	// the page was left meanwhile
	for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "Inspected target navigated") {
		value, err = chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	}
	redistest.FatalIf(p.t, err != nil, "%s: %s: %v", p.name, expression, err)
	return string(value)
}

// put sends the change of an operator.
func (p *tab) put(path, body string) {
	p.t.Helper()
	p.eval(`fetch(` + quote(path) + `, { method: "PUT", headers: { "Content-Type": "application/json" }, body: ` +
		quote(body) + ` }); 0`)
}

// until waits for a condition, which is looked at after each change of the document.
func (p *tab) until(what, condition string) {
	p.t.Helper()
	seen := p.eval(fmt.Sprintf(`new Promise((done) => {
		const is = () => { try { return Boolean(%s) } catch { return false } }
		const end = (value) => { watcher.disconnect(); clearTimeout(late); done(value) }
		const late = setTimeout(() => end(document.body.innerText), %d)
		const watcher = new MutationObserver(() => is() && end(""))
		watcher.observe(document, { subtree: true, childList: true, attributes: true, characterData: true })
		if (is()) end("")
	})`, condition, pagePatience.Milliseconds()))
	if text := unquote(p.t, seen); text != "" {
		p.t.Fatalf("%s: waited too long for %s; the page says:\n%s", p.name, what, text)
	}
}

func unquote(t *testing.T, value string) (text string) {
	t.Helper()
	if err := json.Unmarshal([]byte(value), &text); err != nil {
		t.Fatal(value, err)
	}
	return text
}

// text returns the text of the element with an id.
func (p *tab) text(id string) string {
	p.t.Helper()
	return unquote(p.t, p.eval(`byId(`+quote(id)+`).textContent`))
}

func quote(text string) string {
	quoted, _ := json.Marshal(text) // of a string: cannot fail
	return string(quoted)
}

// back goes to the page before this one. It may come out of the browser's cache, and is not loaded then.
func (p *tab) back() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pagePatience)
	defer cancel()
	there := func(page.EventFrameNavigated) bool { return true }
	if _, err := chromedp.Run(ctx, chromedp.WaitEvent(page.FrameNavigated, there,
		chromedp.Evaluate[chromedp.Void](`history.back()`))); err != nil {
		p.t.Fatalf("%s: going back: %v", p.name, err)
	}
}

// click clicks what is visible, as a user does.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(selector, chromedp.NodeVisible))
}

// take types a name, or a token, and goes in.
func (p *tab) take(value string) {
	p.t.Helper()
	p.until("the form", `!byId("login").hidden`)
	p.eval(`byId("login-value").value = ` + quote(value) + `; 0`)
	p.click("#login-go")
}

// theme makes the browser prefer light or dark.
func (p *tab) theme(name string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name},
			{Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	redistest.OK(p.t, err)
}

// shot writes a screenshot among the test's artifacts.
func (p *tab) shot(name string) {
	ctx, cancel := context.WithTimeout(p.ctx, pagePatience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Logf("%s: no screenshot: %v", p.name, err)
		return
	}
	path := filepath.Join(p.t.ArtifactDir(), name+".png")
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		p.t.Error(err)
	}
	p.t.Log(path)
}

// The list of tables shows what happens without asking again and again, while the page is seen, and goes on when
// its node is back.
func TestPage_Lobby(t *testing.T) {
	redistest.Thorough(t)
	b := startBrowser(t)
	nodes := launch(t, 2, redistest.Start(t).URL())
	p := b.open("lobby", "http://"+nodes[0].addr+"/")
	p.take("李四")
	p.until("no tables", `!byId("tables-empty").hidden`)
	other := nodes[1].player("张三", nil)
	table := func(id string) string {
		return `[...all("#tables a")].some((a) => a.textContent.includes("` + id + `"))`
	}
	join(t, other, "first")
	p.until("a table", table("first"))
	join(t, other, "second")
	p.until("another table", table("second")+` && text("lobby-count") === "2 tables"`)
	if asked := p.eval(`performance.getEntriesByType("resource").filter(({ name }) => name` +
		`.includes("/api/rooms")).length`); asked != "0" {
		t.Errorf("%s answers about the rooms are over", asked)
	}
	const look = `Object.defineProperty(document, "hidden", { value: %, configurable: true }); ` +
		`document.dispatchEvent(new Event("visibilitychange")); 0`
	p.eval(strings.Replace(look, "%", "true", 1))
	p.until("the end of the answer", `performance.getEntriesByType("resource").filter(({ name }) => name`+
		`.includes("/api/rooms")).length === 1`)
	join(t, other, "third")
	p.eval(strings.Replace(look, "%", "false", 1))
	p.until("the third table", table("third"))
	nodes[0].stop(syscall.SIGKILL)
	p.until("words about the list", `text("lobby-count").includes("not up to date")`)
	join(t, other, "fourth")
	nodes[0].start()
	p.until("the fourth table", table("fourth")+` && text("lobby-count") === "4 tables"`)
	p.silent("Failed to load resource", "net::ERR_", "WebSocket connection")
}
