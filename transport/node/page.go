package node

import (
	"net/http"

	"roomd/transport"
	"roomd/transport/page"
)

// withPage serves the page, and what it compares the server with, beside others.
func (c *Config) withPage(others http.Handler) http.Handler {
	options := page.Options{Auth: c.Serve.Auth != nil, Stampede: c.Unguarded != nil, Version: c.Version}
	if options.Auth {
		options.Version = "" // whoever has shown no token need not know what runs
	}
	files := page.New(options)
	own := http.NewServeMux()
	own.Handle("/", files)
	if c.Unguarded != nil {
		own.Handle("/unguarded", c.Unguarded)
	}
	secured := transport.SecureHeaders(own)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if files.Serves(r.URL.Path) || r.URL.Path == "/unguarded" && c.Unguarded != nil {
			secured.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}
