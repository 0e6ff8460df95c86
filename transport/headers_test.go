package transport

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Every response has the headers, whatever it says; a page can widen its policy.
func TestHeaders_Secure(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{})
	for _, target := range []string{"GET /healthz", "HEAD /healthz", "GET /ws", "POST /ws", "GET /ws?user=a", "GET /nothing", "GET //x/../y"} {
		for scheme, wantHSTS := range map[string]string{"http": "", "https": alwaysTLS} {
			answer := answerTo(s.Handler(), target, scheme)
			for name, want := range map[string]string{
				"X-Content-Type-Options":    "nosniff",
				"Content-Security-Policy":   "default-src 'none'; frame-ancestors 'none'",
				"Referrer-Policy":           "no-referrer",
				"Cache-Control":             "no-store",
				"Strict-Transport-Security": wantHSTS,
			} {
				if got := answer.Header()[name]; len(got) > 1 || answer.Header().Get(name) != want {
					t.Errorf("%s by %s: %s: %q, want %q", target, scheme, name, got, want)
				}
			}
		}
	}
	page := SecureHeaders(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "script-src 'self'")
	}))
	if got := answerTo(page, "GET /", "http").Header()["Content-Security-Policy"]; len(got) != 1 || got[0] != "script-src 'self'" {
		t.Errorf("the policy of a page is %q", got)
	}
}

func answerTo(h http.Handler, target, scheme string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(target, " ")
	request, answer := httptest.NewRequest(method, scheme+"://x"+path, nil), httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	return answer
}
