package transport

import (
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/auth"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

var docBlock = regexp.MustCompile("(?ms)^```(session|http)(?: capacity=([0-9]+))?(?: burst=([0-9]+))?(?: (key))?\n(.*?)^```$")

// protocolPages are those of PROTOCOL.md.
const protocolPages = "protocol/v1/*.md"

// The pages of PROTOCOL.md are true: their sessions happen as they are written, its HTTP answers are given, and
// they have no frame outside of them. They explain every code.
func TestDocument_Examples(t *testing.T) {
	text := sourceOf(t, protocolPages)
	blocks := docBlock.FindAllStringSubmatch(text, -1)
	redistest.ErrorIf(t, len(blocks) < 6, "only %d blocks of examples", len(blocks))
	for i, b := range blocks {
		kind, key, lines := b[1], b[4] != "", strings.Split(strings.TrimSpace(b[5]), "\n")
		var capacity, burst int
		fmt.Sscan(b[2], &capacity)
		fmt.Sscan(b[3], &burst)
		bubble(t, fmt.Sprint(kind, i), func(t *testing.T) {
			s := newDocSession(t, capacity, burst, key)
			for _, line := range lines {
				if kind == "http" {
					s.request(line)
				} else {
					s.step(line)
				}
			}
		})
	}
	for name := range described().frames {
		redistest.ErrorIf(t, !described().seen[name], "no example has the server's message %s", name)
	}
	rest := docBlock.ReplaceAllString(text, "")
	redistest.ErrorIf(t, strings.Contains(rest, `{"`), "a frame is outside of the examples")
	for _, code := range protocol.Codes() {
		want := fmt.Sprintf("| `%s` | %s |", code, map[bool]string{true: "yes", false: "no"}[protocol.NewError(code, "").Retry])
		redistest.ErrorIf(t, !strings.Contains(text, want), "the table of codes has no row %s", want)
	}
	for head, words := range map[string][]string{
		"| action | what it does | reply |": actionNames(),
		"| change | what happened | has |":  protocol.Changes(),
		"| `reason` of a `leave` | |":       protocol.Reasons(),
	} {
		rows := tableBelow(text, head)
		for _, word := range words {
			redistest.ErrorIf(t, !strings.Contains(rows, fmt.Sprintf("\n| `%s` |", word)),
				"the table %s has no row of %s", head, word)
		}
		n := strings.Count(rows, "\n| `")
		redistest.ErrorIf(t, n != len(words), "the table %s has %d rows, for %d words", head, n, len(words))
	}
	for _, event := range protocol.Events() {
		redistest.ErrorIf(t, !strings.Contains(text, fmt.Sprintf("\n- `%s` ", event)), "the events lack %s", event)
	}
	rows := tableBelow(text, "| close code | why | what to do |")
	for _, code := range append(protocol.CloseCodes(), websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseAbnormalClosure, websocket.CloseInternalServerErr) {
		redistest.ErrorIf(t, !regexp.MustCompile(fmt.Sprintf(`(?m)^\| [^|]*\b%d\b`, code)).MatchString(rows),
			"the table of close codes lacks %d", code)
	}
}

// tableBelow returns the rows of the table that has that head.
func tableBelow(text, head string) string {
	_, rows, _ := strings.Cut(text, "\n"+head)
	rows, _, _ = strings.Cut(rows, "\n\n")
	return rows
}

// docSession runs the lines of an example. Its clients connect when they first send, and read
// only what the example says.
type docSession struct {
	t             *testing.T
	first, second *testNode // the clients are on the first
	clients       map[string]*testClient
	older         *testClient // replaced by the one in clients
	key           bool        // the servers ask for tokens
}

func newDocSession(t *testing.T, capacity, burst int, key bool) *docSession {
	rules, opts := room.Rules{Seating: room.Capacity(capacity)}, Options{Burst: burst}
	if key {
		opts.Auth = newVerifier(t)
	}
	first := start(t, rules, opts)
	return &docSession{
		t: t, first: first, second: first.beside(t, rules, opts),
		clients: make(map[string]*testClient), key: key,
	}
}

func (s *docSession) step(line string) {
	s.t.Helper()
	s.t.Log(line)
	if strings.HasPrefix(line, "(") {
		s.happen(strings.Trim(line, "()"))
		return
	}
	part := strings.SplitN(line, " ", 3)
	user, direction, frame := part[0], part[1], part[2]
	if s.clients[user] == nil {
		s.clients[user] = s.connect(user)
	}
	switch direction {
	case ">":
		token := tokenOf(s.t, user, time.Hour, "table-*")
		if user == "裁判" {
			token = signed(s.t, auth.Identity{User: user, Role: auth.RoleAdmin})
		}
		s.clients[user].send(strings.ReplaceAll(frame, "eyJ…", token))
	case "<":
		s.clients[user].expect(frame)
	default:
		s.t.Fatalf("what is %q?", line)
	}
	synctest.Wait()
}

func (s *docSession) connect(user string) *testClient {
	if s.key {
		return s.first.dialWith(s.t, "").reading()
	}
	return s.first.connectIdle(s.t, user)
}

// does are the actions of admins, all in room 42, that a line in brackets may say.
var does = map[string][]room.Action{
	"an admin bans 张三, who watches, for a minute": {room.Kick{User: "张三", Until: 60_000}}, // from now
	"an admin has 李四 and 王五 swap their seats":     {room.Swap{Users: []string{"李四", "王五"}}},
	"an admin gives the room a host":              {room.Configure{Settings: room.Settings{Host: room.HostLongest}}},
	"an admin has room 42 keep 9 messages":        {room.Configure{Settings: room.Settings{History: 9}}},
	"an admin moves 李四 to room 43":                nil,
	"an admin kicks 王五, and moves 李四 to room 43":  {room.Kick{User: "王五", Text: "too loud"}},
}

// happen does what a line in brackets says.
func (s *docSession) happen(what string) {
	s.t.Helper()
	number, unit := 0, ""
	actions, isAdmin := does[what]
	switch _, _ = fmt.Sscanf(what, "%d %s later", &number, &unit); {
	case isAdmin:
		for _, action := range actions {
			if kick, is := action.(room.Kick); is && kick.Until > 0 {
				kick.Until += time.Now().UnixMilli()
				action = kick
			}
			s.second.act(s.t, action)
		}
		if strings.Contains(what, "moves") {
			s.second.moveTo(s.t, "42", "43", "李四")
		}
	case what == "Redis loses all data":
		s.first.redis.FlushAll(s.t.Context())
		time.Sleep(coordinator.DefaultNodeTTL)
	case what == "a failure removes 李四, and 王五 joins":
		s.first.hook.setBefore(func(context.Context, room.Action) error { return room.ErrUnavailable }) // no rejoin
		s.second.act(s.t, room.Leave{User: "李四", Session: s.first.session(s.t, "李四"), Reason: "node"})
		s.second.joins(s.t, "王五", "42")
		s.first.hook.setBefore(nil)
		time.Sleep(session.LastPause)
	case what == "李四 connects again":
		s.older = s.clients["李四"]
		s.clients["李四"] = s.first.connectIdle(s.t, "李四")
	case strings.HasPrefix(what, "the older connection of 李四 hears that "):
		s.older.expect(fmt.Sprintf(lostReplaced, strings.Fields(what)[7]))
	case what == "the older connection of 李四 is closed with 4001":
		s.older.expectClose(protocol.CloseReplaced)
	case what == "the connection of 李四 breaks":
		s.clients["李四"].cut()
		delete(s.clients, "李四")
	case what == "张三 closes with 1000":
		s.clients["张三"].sendClose(websocket.CloseNormalClosure)
	case what == "the node cannot reach Redis", what == "Redis is back":
		s.first.hook.unreachable.Store(what != "Redis is back")
		time.Sleep(2 * healthInterval)
	case what == "60 minutes later the connection of 李四 is closed with 4003":
		time.Sleep(time.Hour - time.Second)
		s.clients["李四"].expectSilence()
		time.Sleep(time.Second)
		s.clients["李四"].expectClose(protocol.CloseUnauthorized)
	case what == "the connection of 王五 is closed with 4003":
		s.clients["王五"].expectClose(protocol.CloseUnauthorized)
	case number > 0:
		time.Sleep(time.Duration(number) * map[string]time.Duration{"milliseconds": time.Millisecond, "seconds": time.Second,
			"minutes": time.Minute}[unit])
	default:
		s.t.Fatalf("what is %q?", what)
	}
	synctest.Wait()
}

var docRequest = regexp.MustCompile(`^(\w+) (\S+)(?: from (\S+))?(?: with token (\S+))?: (\d+) (.*)$`)

// request sends an HTTP request, and compares the response.
func (s *docSession) request(line string) {
	s.t.Helper()
	part := docRequest.FindStringSubmatch(line)
	redistest.FatalIf(s.t, part == nil, "what is %q?", line)
	request, answer := httptest.NewRequest(part[1], part[2], nil), httptest.NewRecorder()
	request.Header.Set("Origin", part[3])
	if part[4] != "" {
		request.Header.Set("Authorization", "Bearer "+strings.ReplaceAll(part[4], "eyJ…", tokenOf(s.t, "李四", time.Hour)))
	}
	s.first.Handler().ServeHTTP(answer, request)
	got := fmt.Sprint(answer.Code, " ", strings.TrimSpace(answer.Body.String()))
	redistest.ErrorIf(s.t, got != part[5]+" "+part[6], "%s\ngot %s", line, got)
}
