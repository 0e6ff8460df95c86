package scenarios

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"roomd/transport/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestList(t *testing.T) {
	all, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range all {
		if len(s.steps) == 0 || names[s.name] {
			t.Errorf("%q has no steps, or is there twice", s.name)
		}
		names[s.name] = true
	}
	for _, wrong := range []string{"call close", "== a\ndance"} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q can be read", wrong)
		}
	}
}

// simple is a subject that connects, asks for a list, and closes.
type simple struct {
	url   string
	extra bool // it also sends what nobody asked for

	mu   sync.Mutex
	conn *websocket.Conn // guarded by mu
}

func (s *simple) Do(_ context.Context, command string, args ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch command {
	case "connect":
		dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}}
		conn, response, err := dialer.Dial(s.url+"?user=ada", nil)
		switch {
		case err != nil && response != nil:
			return "error " + response.Status
		case err != nil: // the scenario is over
			return "error " + err.Error()
		}
		s.conn = conn
	case "users":
		_ = s.conn.WriteMessage(websocket.TextMessage, []byte(`{"id":7,"action":"users","room":"`+args[0]+`"}`))
		_, data, err := s.conn.ReadMessage()
		if err != nil {
			return "error " + err.Error()
		}
		return string(data)
	case "close":
		if s.conn == nil {
			return "ok"
		}
		if s.extra {
			_ = s.conn.WriteMessage(websocket.TextMessage, []byte(`{"id":8,"action":"users","room":"1"}`))
		}
		_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), deadline())
		_, _, _ = s.conn.ReadMessage()
		_ = s.conn.Close()
	}
	return "ok"
}

// A scenario passes if the client does what it says, and fails at the step where it does not.
func TestPlay(t *testing.T) {
	for _, test := range []struct {
		name, text string
		extra      bool
		wrong      string // in the error; empty if the scenario passes
	}{
		{name: "right", text: "connected\ncall users 42\n> {\"action\":\"users\",\"room\":\"42\"}\n< {\"count\":0}\ngives {\"id\":7,\"count\":0}"},
		{name: "another request", text: "connected\ncall users 43\n> {\"action\":\"users\",\"room\":\"42\"}", wrong: `list.txt:8: > {"action":"users","room":"42"}: got {"action":"users","room":"43"}`},
		{name: "another answer", text: "connected\ncall users 42\n> {\"action\":\"users\",\"room\":\"42\"}\n< {\"count\":0}\ngives {\"count\":1}", wrong: "list.txt:10: gives"},
		{name: "another user", text: "call connect {}\naccept user=bob", wrong: `the client is "ada"`},
		{name: "refused", text: "call connect {}\nrefuse 503 unavailable\ngives ok", wrong: "got error 503"},
		{name: "more than asked", text: "connected", extra: true, wrong: "also sent"},
		{name: "closes otherwise", text: "connected\ncall close\nclosed 1001\ngives ok", wrong: "got 1000"},
		{name: "no answer awaited", text: "connected\ncall close", wrong: "calls without gives"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, err := parse(":: connected\ncall connect {\"user\":\"ada\"}\naccept user=ada\ngives ok\n== " + test.name + "\n" + test.text)
			if err != nil {
				t.Fatal(err)
			}
			subject := &simple{extra: test.extra}
			defer subject.Do(t.Context(), "close")
			err = play(t.Context(), all[0], func(addresses []string) Subject {
				subject.url = addresses[0]
				return subject
			})
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("got %v, want %q", err, test.wrong)
			}
		})
	}
}
