package roomd

import (
	"bytes"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/client"
)

// runImport runs "roomd import", and returns what it says.
func runImport(t *testing.T, wantCode int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := command(room.Rules{}, append([]string{"import"}, args...), &out, &errs); code != wantCode {
		t.Errorf("%v: exit code %d, want %d: %s\n%s", args, code, wantCode, &errs, &out)
	}
	return out.String()
}

func wantText(t *testing.T, said string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("no %q in\n%s", text, said)
		}
	}
}

// Lists of an older program become rooms with their users on the seats, once --write is given; a player of theirs comes, and
// sits where the list had them. A second import finds nothing to do.
func TestImport_Lists(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	redistest.OK(t, rdb.RPush(t.Context(), "Room:42:Users", "李四", "王五").Err())
	redistest.OK(t, rdb.Set(t.Context(), "Room:43:Users", `["赵六",7]`, 0).Err())
	said := runImport(t, 0, "--redis", server.URL())
	wantText(t, said, "would make room 42 with 2 users of Room:42:Users (list)", "would make room 43 with 2 users of Room:43:Users (string)", "2 lists: 2 rooms would be made, with --write, with 4 users; 0 lists failed, 0 entries skipped")
	if n := rdb.DBSize(t.Context()).Val(); n != 2 {
		t.Errorf("without --write %d keys are there", n)
	}
	said = runImport(t, 0, "--redis", server.URL(), "--write")
	wantText(t, said, "made    room 42 with 2 users of Room:42:Users (list), which is Room:42:Users:imported-", "2 lists: 2 rooms made, with 4 users; 0 lists failed, 0 entries skipped")
	for room, want := range map[string]string{"42": "list", "43": "string"} {
		keys := rdb.Keys(t.Context(), "Room:"+room+":Users:imported-*").Val()
		if len(keys) != 1 || rdb.Type(t.Context(), keys[0]).Val() != want {
			t.Errorf("of room %s remains %v", room, keys)
		}
	}
	wantText(t, runImport(t, 0, "--redis", server.URL(), "--write"), "0 lists: 0 rooms made")

	n, log := startNode(t, "--listen", "127.0.0.1:0", "--redis", server.URL(), "--grace", "1m")
	c, err := client.Dial(t.Context(), "ws://"+n.Addr()+"/ws", client.Options{User: "王五"})
	redistest.OK(t, err)
	defer c.Close()
	r, err := c.Join(t.Context(), "42")
	redistest.OK(t, err)
	if *r.Seat != 1 || len(r.Users) != 2 || r.Users[0].User != "李四" {
		t.Errorf("who was second in the list gets %+v", r)
	}
	c.Close()
	log() // ends the node
}

// What cannot be imported is named, and stays as it is.
func TestImport_Bad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	redistest.OK(t, rdb.RPush(t.Context(), "Room:42:Users", "a", "", "a", "\xff", "b", "c").Err())
	redistest.OK(t, rdb.Set(t.Context(), "Room:43:Users", "Array", 0).Err())
	redistest.OK(t, rdb.SAdd(t.Context(), "Room:44:Users", "a").Err())
	redistest.OK(t, rdb.Set(t.Context(), "Room:45:Users", `["",{"a":1},1.5]`, 0).Err())
	redistest.OK(t, rdb.RPush(t.Context(), "Room:4 6:Users", "a").Err())
	said := runImport(t, exitFailed, "--redis", server.URL(), "--write", "--capacity", "2")
	wantText(t, said, "made    room 42 with 2 users",
		`skipped Room:42:Users, entry 1, "": user must be 1 to 64 characters`, `skipped Room:42:Users, entry 2, "a": stands in the list before`,
		`skipped Room:42:Users, entry 3, "\xff": user is not valid UTF-8`, `skipped Room:42:Users, entry 5, "c": room 42`,
		"failed  Room:43:Users (string): ", `it holds "Array"`, "failed  Room:44:Users (set): ", "failed  Room:45:Users (string): no entry", "failed  Room:4 6:Users (list): room may hold only",
		"5 lists: 1 rooms made, with 2 users; 4 lists failed, 7 entries skipped")
	for _, key := range []string{"Room:43:Users", "Room:44:Users", "Room:45:Users", "Room:4 6:Users"} {
		if rdb.Exists(t.Context(), key).Val() != 1 {
			t.Errorf("%s is gone", key)
		}
	}
	runImport(t, exitWrongUse, "--write")
}

// On a Cluster each master has its lists.
func TestImport_Cluster(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	server := redistest.StartClusterOfOne(t)
	rdb := server.Client()
	redistest.OK(t, rdb.RPush(t.Context(), "Room:{42}:Users", "a", "b").Err())
	said := runImport(t, 0, "--redis", "redis+cluster://"+server.Addr(), "--write")
	wantText(t, said, "made    room 42 with 2 users of Room:{42}:Users (list), which is Room:{42}:Users:imported-")
	if n := rdb.HLen(t.Context(), "Room:{42}:Users").Val(); n != 2 {
		t.Errorf("%d members", n)
	}
}
