package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/auth"
)

const secret = "0123456789abcdef0123456789abcdef"

// sign returns a token. Without patterns it allows all rooms.
func sign(t testing.TB, user string, role auth.Role, patterns ...string) string {
	t.Helper()
	return signed(t, auth.Identity{User: user, Role: role, Rooms: patterns})
}

// signed returns a token of an hour that says what who does.
func signed(t testing.TB, who auth.Identity) string {
	t.Helper()
	signer, err := auth.SecretSigner(secret)
	redistest.OK(t, err)
	who.Expires = time.Now().Add(time.Hour)
	token, err := signer.Sign(who)
	redistest.OK(t, err)
	return token
}

// world is an API with rooms of its own, on the two addresses of a node.
type world struct {
	t                 *testing.T
	redis             redis.UniversalClient
	rooms             *coordinator.Coordinator
	players           *coordinator.Coordinator // another node, whose players have no connections
	api               *API
	public, operators *httptest.Server
	described         routers.Router

	mu   sync.Mutex
	seen map[string]bool // guarded by mu: what was answered: method, path of the description, status
}

// newWorld starts an API. keyed says that it has a key for tokens.
func newWorld(t *testing.T, keyed bool, opts Options) *world {
	t.Helper()
	_, rdb := redistest.Mini(t)
	reports := []func(*coordinator.NodeReport){func(r *coordinator.NodeReport) {
		r.Version, r.Settings, r.Admin = "v1", map[string]string{"capacity": "4"}, "127.0.0.1:9090"
	}, nil}
	var nodes [2]*coordinator.Coordinator
	var err error
	for i := range nodes {
		if nodes[i], err = coordinator.New(rdb, coordinator.Options{Report: reports[i], Rules: room.Rules{Seating: room.Capacity(4)}, Journal: 100, Feed: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	rooms := nodes[0]
	serve := transport.Options{AllowOrigins: []string{"https://game.example"}}
	if keyed {
		if serve.Auth, err = auth.New(auth.Secret(secret), auth.Options{}); err != nil {
			t.Fatal(err)
		}
		opts.Auth = serve.Auth
	}
	server, err := transport.New(rooms, serve)
	redistest.OK(t, err)
	w := &world{t: t, redis: rdb, rooms: rooms, players: nodes[1], seen: make(map[string]bool)}
	if w.api, err = New(rooms, server, opts); err != nil {
		t.Fatal(err)
	}
	w.public, w.operators = httptest.NewServer(w.api.Public()), httptest.NewServer(w.api.Operators())
	t.Cleanup(func() {
		w.public.Close()
		w.operators.Close()
		w.api.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		for _, node := range nodes {
			if err := node.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	if w.described, err = gorillamux.NewRouter(described(t)); err != nil {
		t.Fatal(err)
	}
	return w
}

// described returns what the description says, which has to be valid itself.
func described(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := readDescription()
	redistest.OK(t, err)
	return doc
}

// readDescription reads it once: that takes as long as some tests.
var readDescription = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(openAPI())
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

// call is a request, and what its answer should be. The headers are alternately names and values.
type call struct {
	method, path string
	body         string // sent as application/json unless it is empty
	token        string
	headers      []string
	operator     bool // to the operators' address
	status       int
	want         []string // parts of the answer's body
}

// reply is the answer to a call.
type reply struct {
	*http.Response
	body []byte
}

// field returns a field of the answer.
func (r reply) field(name string) any {
	var all map[string]any
	_ = json.Unmarshal(r.body, &all)
	return all[name]
}

// do sends a request, and holds the answer against the call and the description.
func (w *world) do(c call) reply {
	w.t.Helper()
	base := w.public.URL
	if c.operator {
		base = w.operators.URL
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, c.method, base+c.path, strings.NewReader(c.body))
	if err != nil {
		w.t.Fatal(err)
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(c.headers); i += 2 {
		req.Header.Set(c.headers[i], c.headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	r := reply{res, body}
	if res.StatusCode != c.status {
		w.t.Errorf("%s %s: status %d, want %d: %s", c.method, c.path, res.StatusCode, c.status, body)
	}
	for _, want := range c.want {
		if !bytes.Contains(body, []byte(want)) {
			w.t.Errorf("%s %s: %s, want %s in it", c.method, c.path, body, want)
		}
	}
	if c.method != http.MethodHead && c.method != http.MethodOptions {
		w.holdAgainstDescription(req, c, r)
	}
	return r
}

// holdAgainstDescription fails where an answer is not as the description says, or a request that was
// accepted is not.
func (w *world) holdAgainstDescription(req *http.Request, c call, r reply) {
	w.t.Helper()
	req.Host, req.URL.Host, req.URL.Scheme = "", "", ""
	route, parameters, err := w.described.FindRoute(req)
	if err != nil { // a path or method that there is not
		if r.StatusCode != http.StatusNotFound && r.StatusCode != http.StatusMethodNotAllowed {
			w.t.Errorf("%s %s: %d, and %v", c.method, c.path, r.StatusCode, err)
		}
		return
	}
	req.Body = io.NopCloser(strings.NewReader(c.body))
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, RejectWhenRequestBodyNotSpecified: true},
	}
	if r.StatusCode < 300 {
		if err := openapi3filter.ValidateRequest(w.t.Context(), in); err != nil {
			w.t.Errorf("%s %s was accepted: %v", c.method, c.path, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: r.StatusCode, Header: r.Header, Options: in.Options}
	out.SetBodyBytes(r.body)
	if err := openapi3filter.ValidateResponse(w.t.Context(), out); err != nil {
		w.t.Errorf("%s %s: %d %s: %v", c.method, c.path, r.StatusCode, r.body, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[c.method+" "+route.Path+" "+strconv.Itoa(r.StatusCode)] = true
}

// join makes users members of a room.
func (w *world) join(id string, users ...string) {
	w.t.Helper()
	for _, user := range users {
		if _, err := w.players.Do(w.t.Context(), id, room.Join{User: user, Session: "session"}); err != nil {
			w.t.Fatal(err)
		}
	}
}
