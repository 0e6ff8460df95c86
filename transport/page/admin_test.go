package page

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

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
			if !h.Serves("/admin/" + string(found[1])) {
				t.Errorf("%s needs %s, which is not served", path, found[1])
			}
		}
	}
}
