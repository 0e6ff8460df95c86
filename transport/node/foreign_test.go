package node

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// A program that has kept users in Redis before has left its lists there. A player hears that trying again will not
// help, an operator which key it is, and nothing is written; "roomd check" and the log say so once.
func TestForeign_ListsOfAnotherProgram(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t) // miniredis words its errors otherwise
	rdb := server.Client()
	redistest.OK(t, rdb.RPush(t.Context(), "Room:42:Users", "李四", "王五").Err())
	redistest.OK(t, rdb.Set(t.Context(), "Room:43:Users", `["李四","王五"]`, 0).Err())
	before := rdb.Dump(t.Context(), "Room:42:Users").Val() + rdb.Dump(t.Context(), "Room:43:Users").Val()
	n, log := startNode(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--redis", server.URL(), "--log-format", "json")
	c, err := client.Dial(t.Context(), "ws://"+n.Addr()+"/ws", client.Options{User: "张三"})
	redistest.OK(t, err)
	defer c.Close()
	for id, kind := range map[string]string{"42": "list", "43": "string"} {
		_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: id})
		refusal, is := errors.AsType[*protocol.Error](err)
		if !is || refusal.Code != protocol.CodeInternal || refusal.Retry || !strings.Contains(refusal.Message, "another program's") ||
			!strings.Contains(refusal.Message, "nothing was written") || strings.Contains(refusal.Message, "李四") {
			t.Errorf("a player of room %s hears %v", id, err)
		}
		status, problem := getProblem(t, "http://"+n.AdminAddr()+"/api/rooms/"+id)
		if status != http.StatusInternalServerError || problem.Code != protocol.CodeInternal || problem.Retry ||
			!strings.Contains(problem.Detail, "Room:"+id+":Users is a "+kind+" and not a hash") || !strings.Contains(problem.Detail, "rename or delete") {
			t.Errorf("an operator who looks at room %s hears %d %+v", id, status, problem)
		}
	}
	if after := rdb.Dump(t.Context(), "Room:42:Users").Val() + rdb.Dump(t.Context(), "Room:43:Users").Val(); after != before {
		t.Error("the lists are not what they were")
	}
	wantLine(t, check(t, 0, "--redis", server.URL()), levelWarn, "rooms", "2 rooms refuse every action, since another program has written under their keys, the first of them Room:42:Users, which is a list")
	c.Close()
	if lines := log(); strings.Count(lines, `"requests fail: internal"`) > 2 || !strings.Contains(lines, ":Users is a ") { // over WebSockets, and over HTTP
		t.Errorf("the log says\n%s", lines)
	}
}

func getProblem(t *testing.T, url string) (status int, problem struct {
	Code, Detail string
	Retry        bool
}) {
	t.Helper()
	status, text := get(t, url)
	redistest.OK(t, json.Unmarshal([]byte(text), &problem))
	return status, problem
}

// A search finds the keys of rooms only, and a Redis without any is fine.
func TestForeign_None(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	redistest.OK(t, rdb.RPush(t.Context(), "Rooms:42:Users", "a").Err())
	redistest.OK(t, rdb.HSet(t.Context(), "Room:42:Users", "a", "1").Err())
	wantLine(t, check(t, 0, "--redis", server.URL()), levelOK, "rooms", "no key")
}
