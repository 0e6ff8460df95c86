// Package page has the files that a browser gets from a node: the page at /, a card table to sit down at, and
// roomd.js, the client, which other pages use as well.
//
// New returns the handler of the files, which are all embedded. The page is plain HTML, CSS and JavaScript modules,
// without a build. Its Content-Security-Policy allows files of this server only: no inline script or style, no frame
// around it. Names and messages are shown as text, never as markup.
//
// The page's files are in assets. It starts with page.js; table.js shows a table, and lobby.js the list of tables.
// stampede.js shows many players who want one table at once, with and without a lock; crowd.js plays them.
//
// Admin returns the handler of the operators' page. Its files are in admin, and it starts with admin.js. It polls the
// operators' API about once a second; nodes.js, charts.js, rooms.js and room.js show the results.
//
// The package runs no goroutines.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/transport"
	"roomd/transport/page/uplot"
	"roomd/transport/protocol"
)

// assets are the page's own files. index.html is served at /.
//
//go:embed assets
var assets embed.FS

// library is roomd.js, used by the page. Games may copy it.
//
//go:embed roomd.js roomd.d.ts
var library embed.FS

// readme explains how to write your own page.
//
//go:embed README.md
var readme []byte

// Options configure the page. The zero value is for a server without a key, and without the stampede's comparison.
type Options struct {
	Auth     bool   // players show a token instead of choosing a name
	Stampede bool   // GET /unguarded is served, too
	Version  string // of the server; empty shows none
}

// Handler serves the page and its files.
type Handler struct {
	files map[string]file // by URL path
}

type file struct {
	content []byte
	kind    string // its Content-Type
	etag    string
}

// New returns the handler of the page, of roomd.js, and of documents below /docs/.
func New(opts Options) *Handler {
	h := &Handler{files: make(map[string]file)}
	h.addAll("/", assets, "assets/*")
	h.addAll("/", library, "*")
	h.add("/docs/browser.md", readme)
	h.addAll("/docs/", transport.Documents, "*")
	h.addAll("/docs/protocol/v1/", transport.Documents, "protocol/v1/*")
	h.files["/docs/protocol.md"] = h.files["/docs/PROTOCOL.md"]
	delete(h.files, "/docs/PROTOCOL.md")
	h.files["/"] = h.files["/index.html"]
	delete(h.files, "/index.html")
	facts, err := json.Marshal(map[string]any{"auth": opts.Auth, "stampede": opts.Stampede, "version": opts.Version},
		json.Deterministic(true))
	if err != nil {
		panic(err) // of values that can always be encoded
	}
	h.add("/page.json", append(facts, '\n'))
	return h
}

// addAll adds the files of a file system that match pattern, at URL paths below folder, which ends with a slash.
func (h *Handler) addAll(folder string, from fs.FS, pattern string) {
	names, err := fs.Glob(from, pattern)
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		content, err := fs.ReadFile(from, name)
		if err == nil { // else it is a folder
			h.add(folder+path.Base(name), content)
		}
	}
}

// kinds are the content types of our files. The machine's own table is not used.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".ts": "application/typescript; charset=utf-8", ".json": "application/json; charset=utf-8", ".svg": "image/svg+xml", ".md": "text/plain; charset=utf-8", // browsers show this
	".yaml": "text/plain; charset=utf-8",
}

func (h *Handler) add(at string, content []byte) {
	kind, ok := kinds[path.Ext(at)]
	if !ok {
		kind = mime.TypeByExtension(path.Ext(at))
	}
	sum := sha256.Sum256(content)
	h.files[at] = file{content, kind, `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// Serves reports whether there is a file at a URL path.
func (h *Handler) Serves(at string) bool { _, ok := h.files[at]; return ok }

// ServeHTTP answers GET and HEAD. A browser may cache a file but must revalidate it, so that after an update of the
// server no file is older than another.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := h.files[r.URL.Path]
	switch {
	case !ok:
		transport.Refuse(w, http.StatusNotFound, protocol.NewError(protocol.CodeBadRequest, "there is nothing at %s",
			r.URL.Path))
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		transport.Refuse(w, http.StatusMethodNotAllowed,
			protocol.NewError(protocol.CodeBadRequest, "%s allows GET, HEAD, not %s", r.URL.Path, r.Method))
		return
	}
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", f.etag)
	if strings.HasPrefix(f.kind, "text/html") {
		header.Set("Content-Security-Policy", policy(r.Host))
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}

// policy is the Content-Security-Policy of the page: its own files, and connections to its own server. For older
// browsers 'self' does not include a WebSocket, so the host is named as well.
func policy(host string) string {
	connect := "'self'"
	if host != "" && !strings.ContainsFunc(host, notOfHost) {
		connect += " ws://" + host + " wss://" + host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src " + connect +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// notOfHost reports whether a Host cannot contain c. A character such as ';' would begin another directive of the
// policy.
func notOfHost(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._:[]", c)
}

// adminAssets are the files of the operators' page. index.html is served at /admin.
//
//go:embed admin
var adminAssets embed.FS

// sharedAssets are the files of the players' page that the operators' page uses, too.
var sharedAssets = []string{"assets/page.css", "assets/dom.js", "assets/login.js", "assets/icon.svg"}

// Admin returns the handler of the operators' page at /admin. The files contain no secret; the page gets its data
// from the operators' API at /api on the same address.
func Admin() *Handler {
	h := &Handler{files: make(map[string]file)}
	for _, name := range sharedAssets {
		h.addAll("/admin/", assets, name)
	}
	h.addAll("/admin/", adminAssets, "admin/*")
	h.addAll("/admin/", uplot.Files, "*") // draws the charts
	index := h.files["/admin/index.html"]
	h.files["/admin"], h.files["/admin/"] = index, index
	delete(h.files, "/admin/index.html")
	return h
}
