package api

import (
	"net/http"
	"strings"
	"testing"
)

// What is wrong with a body is said, and nothing is done.
func TestBody_ReadStrictly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, Options{})
	put := func(body string, status int, want string, headers ...string) {
		t.Helper()
		r := w.do(call{method: "PUT", path: "/api/rooms/42", body: body, headers: headers, operator: true, status: status, want: []string{want}})
		if r.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v", body, r.Header)
		}
	}
	for body, want := range map[string]string{
		`{"capacity":4,"size":1}`:        `"field":"size"`,
		`{"Capacity":4}`:                 `names are in lower case, \"capacity\"`,
		`{"capacity":4,"capacity":5}`:    `"capacity is there twice"`,
		`{"capacity":4} {}`:              `more follows after byte 14`,
		`{"capacity":4}x`:                `more follows`,
		`{"capacity":4`:                  `ends too early`,
		`{"capacity":}`:                  `from byte 12 on`,
		`[]`:                             `one JSON object`,
		`null`:                           `one JSON object`,
		` `:                              `the body is empty`,
		`{"capacity":"4"}`:               `capacity must be a whole number`,
		`{"capacity":1.5}`:               `capacity must be a whole number`,
		`{"capacity":-0}`:                `capacity must be a whole number`,
		`{"capacity":null}`:              `capacity must be a whole number`,
		`{"capacity":-1}`:                `"field":"capacity"`,
		`{"capacity":65537}`:             `"field":"capacity"`,
		`{"capacity":99999999999999999}`: `"field":"capacity"`,
		`{"closed":1}`:                   `closed must be true or false`,
		"{\"keep\xff\":true}":            `not valid JSON from byte`,
		`{"` + strings.Repeat("é", 100) + `":1}`: strings.Repeat("é", 32) + "… is unknown",
	} {
		put(body, 400, want)
	}
	put(`{}`, 415, `"code":"unsupported_type"`, "Content-Type", "text/plain")
	put(`{}`, 415, "application/json", "Content-Type", "application/json; charset=latin1")
	put(`{}`, 415, "application/json", "Content-Type", "application/x-www-form-urlencoded")
	for _, coding := range []string{"gzip", "identity, gzip", "deflate", "br", "x"} {
		put(`{}`, 415, "without Content-Encoding", "Content-Encoding", coding)
	}
	w.do(call{method: "PUT", path: "/api/rooms/43", body: "{}", headers: []string{"Content-Encoding", "Identity"}, operator: true, status: 200})
	w.do(call{method: "PUT", path: "/api/rooms/43/data", body: `{"a":1e999999}`, operator: true, status: 400, want: []string{`"field":"data"`, "1e999999"}})
	put(strings.Repeat(" ", 64<<10)+`{}`, 413, "65536 bytes")
	w.do(call{method: "PUT", path: "/api/rooms/42", operator: true, status: 415}) // no body, no type
	w.do(call{method: "GET", path: "/api/rooms/42", status: http.StatusNotFound})
	w.do(call{method: "PUT", path: "/api/rooms/42", body: strings.Repeat(" ", 64<<10-2) + `{}`, headers: []string{"Content-Type", "Application/JSON; charset=UTF-8"}, operator: true, status: 200})
	for body, want := range map[string]string{`{"seed":1}`: `"field":"seed"`, `[]`: `one JSON object`} {
		w.do(call{method: "POST", path: "/api/rooms/42/shuffle", body: body, operator: true, status: http.StatusBadRequest, want: []string{want}})
	}
}
