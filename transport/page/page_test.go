package page

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// ask returns the answer of a handler. The headers are alternately names and values.
func ask(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	request, answer := httptest.NewRequest(method, "http://game.example:8080"+path, nil), httptest.NewRecorder()
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	h.ServeHTTP(answer, request)
	return answer
}

func TestPage_Files(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/page.js": "text/javascript; charset=utf-8", "/page.css": "text/css; charset=utf-8",
		"/roomd.js": "text/javascript; charset=utf-8", "/roomd.d.ts": "application/typescript; charset=utf-8", "/stampede.js": "text/javascript; charset=utf-8",
		"/icon.svg": "image/svg+xml", "/docs/browser.md": "text/plain; charset=utf-8", "/docs/protocol.md": "text/plain; charset=utf-8", "/docs/asyncapi.yaml": "text/plain; charset=utf-8", "/page.json": "application/json; charset=utf-8",
	} {
		full, head := ask(h, "GET", path), ask(h, "HEAD", path)
		if full.Code != 200 || full.Header().Get("Content-Type") != kind || full.Body.Len() == 0 || full.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d, %v, %d bytes", path, full.Code, full.Header(), full.Body.Len())
		}
		if head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("Content-Length") != full.Header().Get("Content-Length") {
			t.Errorf("HEAD %s: %d, %v, %d bytes", path, head.Code, head.Header(), head.Body.Len())
		}
		etag := full.Header().Get("ETag")
		if again := ask(h, "GET", path, "If-None-Match", etag); etag == "" || again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s with its ETag %q: %d", path, etag, again.Code)
		}
		if other := ask(h, "GET", path, "If-None-Match", `"x"`); other.Code != 200 {
			t.Errorf("%s with another ETag: %d", path, other.Code)
		}
	}
}

func TestPage_NothingElse(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	for _, path := range []string{"/index.html", "/assets", "/assets/page.js", "/page.go", "/../page.go", "/table.png", "/PAGE.JS", "/page.js/"} {
		if answer := ask(h, "GET", path); answer.Code != 404 || !json.Valid(answer.Body.Bytes()) || h.Serves(path) {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
	if answer := ask(h, "POST", "/"); answer.Code != 405 || answer.Header().Get("Allow") != "GET, HEAD" || !json.Valid(answer.Body.Bytes()) {
		t.Errorf("POST /: %d, %v %s", answer.Code, answer.Header(), answer.Body)
	}
}

// The policy allows nothing from elsewhere and nothing inline, and names the host for browsers
// that do not count its WebSocket as 'self'. A host that is none cannot widen it.
func TestPage_Policy(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	const around = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'%; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	for host, extra := range map[string]string{
		"game.example:8080": " ws://game.example:8080 wss://game.example:8080", "[::1]:80": " ws://[::1]:80 wss://[::1]:80",
		"x; script-src *": "", "a b": "", "a,b": "", "*": "", "": "",
	} {
		want := strings.Replace(around, "%", extra, 1)
		if got := ask(h, "GET", "/", "Host", host).Header().Get("Content-Security-Policy"); got != want {
			t.Errorf("host %q: %s", host, got)
		}
	}
}

// What the policy forbids, or other hosts would learn of, is in no file.
func TestPage_LoadsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	outside := regexp.MustCompile(`(?i)(src|href)\s*=\s*["'](https?:)?//|@import|(?-i:url\()|<style|\sstyle=|\son[a-z]+\s*=\s*["']|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`)
	for _, h := range []*Handler{New(Options{}), Admin()} {
		for path, file := range h.files {
			if found := outside.Find(file.content); found != nil {
				t.Errorf("%s has %q", path, found)
			}
		}
	}
}

func TestPage_Facts(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]Options{
		`{"auth":false,"stampede":false,"version":""}`:   {},
		`{"auth":true,"stampede":true,"version":"v1.2"}`: {Auth: true, Stampede: true, Version: "v1.2"},
	} {
		if got := strings.TrimSpace(ask(New(opts), "GET", "/page.json").Body.String()); got != want {
			t.Errorf("%+v: %s", opts, got)
		}
	}
}

func TestAdmin_Files(t *testing.T) {
	t.Parallel()
	h := Admin()
	for path, kind := range map[string]string{
		"/admin": "text/html; charset=utf-8", "/admin/": "text/html; charset=utf-8", "/admin/admin.js": "text/javascript; charset=utf-8",
		"/admin/admin.css": "text/css; charset=utf-8", "/admin/page.css": "text/css; charset=utf-8", "/admin/dom.js": "text/javascript; charset=utf-8",
		"/admin/icon.svg": "image/svg+xml",
	} {
		full := ask(h, "GET", path)
		if full.Code != 200 || full.Header().Get("Content-Type") != kind || full.Body.Len() == 0 || full.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d, %v, %d bytes", path, full.Code, full.Header(), full.Body.Len())
		}
		if again := ask(h, "GET", path, "If-None-Match", full.Header().Get("ETag")); again.Code != 304 {
			t.Errorf("%s with its ETag: %d", path, again.Code)
		}
		if policy := full.Header().Get("Content-Security-Policy"); strings.HasPrefix(kind, "text/html") != strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self'") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
	for _, path := range []string{"/", "/admin/index.html", "/admin/page.js", "/admin/roomd.js", "/admin/../page.go", "/admin.js"} {
		if answer := ask(h, "GET", path); answer.Code != 404 || !json.Valid(answer.Body.Bytes()) {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
}

// Each module that one imports is served, and so is each file that the page names.
func TestAdmin_FilesAreComplete(t *testing.T) {
	t.Parallel()
	h := Admin()
	named := regexp.MustCompile(`(?:from "\./|(?:src|href)="/admin/)([a-z]+\.[a-z]+)"`)
	for path, file := range h.files {
		for _, found := range named.FindAllSubmatch(file.content, -1) {
			redistest.ErrorIf(t, !h.Serves("/admin/"+string(found[1])),
				"%s needs %s, which is not served", path, found[1])
		}
	}
}
