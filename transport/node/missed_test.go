package node

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

// order tells the API of operators to do something to a room.
func order(t *testing.T, admin, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+admin+"/api/rooms/"+path, strings.NewReader(body))
	redistest.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	resp, err := web.Do(req)
	redistest.OK(t, err)
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", path, body, resp.Status)
	}
}

// finished waits until a room has ended, and returns why.
func finished(t *testing.T, r *client.Room) error {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(20 * time.Second):
		t.Fatalf("room %s goes on: %+v", r.ID(), r.View())
	}
	return r.Err()
}

// A node dies. While its players are away one of them is kicked, one is moved, and one is left alone.
// When they come back, the kick and the move are not undone.
func TestReconnect_MissedWhileAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := roomdtest.FreeAddr(t)
	dying := launch(t, 1, server.URL())[0]
	other := launch(t, 1, server.URL(), "--admin-listen", admin)[0]
	rooms := map[string]*client.Room{}
	clients := map[string]*client.Client{}
	for _, name := range []string{"kicked", "moved", "stays"} {
		c := connectAs(t, name, "ws://"+dying.addr+"/ws")
		r, err := c.Join(t.Context(), "42")
		redistest.OK(t, err)
		clients[name], rooms[name] = c, r
	}
	dying.stop(os.Kill)
	order(t, admin, "42/kick", `{"user":"kicked","text":"too loud"}`)
	order(t, admin, "42/move", `{"users":["moved"],"to":"43"}`)
	dying.start()

	var lost *client.LostError
	if err := finished(t, rooms["kicked"]); !errors.As(err, &lost) || lost.Reason != protocol.ReasonKicked || lost.Text != "too loud" {
		t.Errorf("kicked: %v", err)
	}
	if err := finished(t, rooms["moved"]); !errors.As(err, &lost) || lost.Reason != protocol.ReasonMoved || lost.To != "43" {
		t.Errorf("moved: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if r, err := clients["moved"].Join(ctx, "43"); err != nil || r.View().Users[0].User != "moved" {
		t.Errorf("moved: %+v, %v", r, err)
	}
	if err := rooms["stays"].Ready(ctx, true); err != nil {
		t.Error(err)
	}
	watcher := connectAs(t, "watcher", "ws://"+other.addr+"/ws")
	list, err := watcher.Users(ctx, "42")
	if err != nil || !slices.Equal(list.Users, []protocol.Seated{{User: "stays", Seat: 2, Ready: true}}) {
		t.Errorf("room 42: %+v, %v", list, err)
	}
}

// Who is connected is moved, too; and of two clients of a user in one room the older one ends, when that was its last room.
func TestReconnect_MovedAndReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := roomdtest.FreeAddr(t)
	node := launch(t, 1, server.URL(), "--admin-listen", admin)[0]
	older := connectAs(t, "张三", "ws://"+node.addr+"/ws")
	r, err := older.Join(t.Context(), "42")
	redistest.OK(t, err)
	order(t, admin, "42/move", `{"users":["张三"],"to":"43"}`)
	var lost *client.LostError
	if err := finished(t, r); !errors.As(err, &lost) || lost.To != "43" {
		t.Error(err)
	}
	r, err = older.Join(t.Context(), "43")
	if seat, member := r.Seat(); err != nil || !member || seat != 0 || older.Room("43") != r {
		t.Errorf("%v, %+v", err, r.View())
	}

	newer := connectAs(t, "张三", "ws://"+node.addr+"/ws")
	if _, err := newer.Join(t.Context(), "43"); err != nil {
		t.Fatal(err)
	}
	if err := finished(t, r); !errors.As(err, &lost) || lost.Reason != protocol.LostReplaced {
		t.Error(err)
	}
	<-older.Done()
	if newer.State() != client.Connected || older.State() != client.Lost {
		t.Error(newer.State(), older.State())
	}
}
