package scenarios

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestList(t *testing.T) {
	names := map[string]bool{}
	for _, s := range All() {
		if len(s.steps) == 0 || names[s.Name] {
			t.Errorf("%q has no steps, or is there twice", s.Name)
		}
		names[s.Name] = true
	}
	for _, wrong := range []string{"call close", "== a\ndance"} {
		if _, err := parse("x", wrong); err == nil {
			t.Errorf("%q can be read", wrong)
		}
	}
}

// simple is a program whose client connects, asks for a list, and closes.
type simple struct {
	extra bool // it also sends what nobody asked for
	conn  *websocket.Conn
}

// run reads and writes lines.
func (s *simple) run(in io.Reader, out io.WriteCloser) {
	defer out.Close()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var ask struct {
			ID      int
			Do      string
			Room    string
			Options options
		}
		_ = json.Unmarshal(lines.Bytes(), &ask, json.MatchCaseInsensitiveNames(true))
		_, _ = fmt.Fprintf(out, `{"id":%d,%s}`+"\n", ask.ID, s.carryOut(ask.Do, ask.Room, ask.Options))
	}
	s.carryOut("close", "", options{})
}

func (s *simple) carryOut(do, room string, options options) string {
	failed := func(err error) string { return fmt.Sprintf(`"error":"failed","message":%q`, err.Error()) }
	switch {
	case do == "connect":
		dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}}
		conn, response, err := dialer.Dial(options.Addresses[0]+"?user=ada", nil)
		switch {
		case err != nil && response != nil:
			return failed(errors.New(response.Status))
		case err != nil: // the scenario is over
			return failed(err)
		}
		s.conn = conn
	case do == "users":
		_ = s.conn.WriteMessage(websocket.TextMessage, []byte(`{"id":7,"action":"users","room":"`+room+`"}`))
		_, data, err := s.conn.ReadMessage()
		if err != nil {
			return failed(err)
		}
		return `"result":` + string(data)
	case s.conn != nil:
		if s.extra {
			_ = s.conn.WriteMessage(websocket.TextMessage, []byte(`{"id":8,"action":"users","room":"1"}`))
		}
		_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), deadline())
		_, _, _ = s.conn.ReadMessage()
		_ = s.conn.Close()
	}
	return `"result":null`
}

// startHere starts a program in this process.
func startHere(t *testing.T, run func(in io.Reader, out io.WriteCloser)) *program {
	in, asks := io.Pipe()
	answers, out := io.Pipe()
	p := newProgram(asks, answers)
	p.wait = func() error { <-p.life.Done(); return nil }
	go run(in, out)
	return p
}

// A scenario passes if the client does what it says, and fails at the step where it does not.
func TestPlay(t *testing.T) {
	const asks = "connected\ncall users 42\n> {\"action\":\"users\",\"room\":\"42\"}\n"
	for _, test := range []struct {
		name, text string
		extra      bool
		wrong      string // in the error; empty if the scenario passes
	}{
		{name: "right", text: asks + "< {\"count\":0}\ngives {\"id\":7,\"count\":0}"},
		{name: "another request", text: "connected\ncall users 43\n> {\"action\":\"users\",\"room\":\"42\"}",
			wrong: "call users 43\nlist.txt:8: > {\"action\":\"users\",\"room\":\"42\"}\n" +
				"the client must send this request: got {\"action\":\"users\",\"room\":\"43\"}"},
		{name: "another answer", text: asks + "< {\"count\":0}\ngives {\"count\":1}", wrong: "list.txt:10: gives"},
		{name: "another user", text: "call connect {}\naccept user=bob", wrong: `the client is "ada"`},
		{name: "refused", text: "call connect {}\nrefuse 503 unavailable\ngives ok", wrong: "got error failed: 503"},
		{name: "more than asked", text: "connected", extra: true, wrong: "also sent"},
		{name: "closes otherwise", text: "connected\ncall close\nclosed 1001\ngives ok", wrong: "got 1000"},
		{name: "no answer awaited", text: "connected\ncall close", wrong: "calls without gives"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, err := parse("list.txt", ":: connected\ncall connect {\"user\":\"ada\"}\naccept user=ada\ngives ok\n== "+
				test.name+"\n"+test.text)
			if err != nil {
				t.Fatal(err)
			}
			program := startHere(t, (&simple{extra: test.extra}).run)
			err = all[0].play(t.Context(), program)
			redistest.OK(t, program.close())
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("got %v, want %q", err, test.wrong)
			}
		})
	}
}

// README.md has the table of commands, with their fields in the same order.
func TestCommands_Documented(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	redistest.OK(t, err)
	var documented []command
	rows := regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\| ([^|]*)\\|[^|]*\\|$")
	for _, row := range rows.FindAllStringSubmatch(string(readme), -1) {
		documented = append(documented, command{row[1], strings.ReplaceAll(strings.TrimSpace(row[2]), "`", "")})
	}
	redistest.ErrorIf(t, !slices.Equal(documented, commands), "README.md has\n%v\nthe kit\n%v", documented, commands)
	for i := range reflect.TypeFor[options]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[options]().Field(i).Tag.Get("json"), ",")
		redistest.ErrorIf(t, !strings.Contains(string(readme), "`"+name+"`"), "README.md has no option %s", name)
	}
	for _, s := range All() {
		for _, step := range s.steps {
			if step.verb == "call" {
				args := split(step.text)
				redistest.OK(t, redistest.Err(request(1, "a", args[0], args[1:]...)))
			}
		}
	}
}

// What a program writes that is no answer is told at its end, as is an end that is none.
func TestProgram_Wrong(t *testing.T) {
	for line, want := range map[string]string{
		"hello": `wrote "hello", which is no answer`, `{"result":1}`: "no answer", `{"id":9}`: "nobody has asked", "": "",
	} {
		p := startHere(t, func(in io.Reader, out io.WriteCloser) {
			_, _ = io.WriteString(out, line)
			_ = out.Close()
			_, _ = io.Copy(io.Discard, in)
		})
		<-p.life.Done()
		if got := p.do(t.Context(), "a", "state"); got != "error the program has ended" {
			t.Errorf("%q: a client of a program that has ended says %q", line, got)
		}
		if err := p.close(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	p, err := start(exec.Command("false"))
	redistest.OK(t, err)
	if err := p.close(); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("a program that fails: %v", err)
	}
}
