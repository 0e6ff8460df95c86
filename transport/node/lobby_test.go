package node

import (
	"context"
	"iter"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
)

// lobbyShows waits until an iteration over the lobby yields a list of those rooms.
func lobbyShows(t *testing.T, next func() (client.Lobby, error, bool), want ...string) {
	t.Helper()
	for {
		list, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("waiting for %q: %v", want, err)
		}
		var ids []string
		for _, r := range list.Rooms {
			ids = append(ids, r.Room)
		}
		if !list.Stale && strings.Join(ids, " ") == strings.Join(want, " ") {
			return
		}
	}
}

// Who follows the lobby is shown what happens there through any node, whichever of them stops or is killed.
func TestLobby_NodesEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	nodes := launch(t, 2, server.URL())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	follower := connectAs(t, "follower", addresses(nodes)...)
	next, stop := iter.Pull2(follower.Lobby(ctx, client.LobbyQuery{Prefix: "t"}))
	defer stop()
	lobbyShows(t, next)
	other := connectAs(t, "other", addresses(nodes)...)
	var rooms []string
	enter := func(id string) {
		t.Helper()
		rooms = append(rooms, id)
		_, err := other.Join(ctx, id)
		redistest.OK(t, err)
		lobbyShows(t, next, rooms...)
	}
	enter("t1")
	for i, how := range []os.Signal{syscall.SIGTERM, os.Kill} {
		nodes[i].stop(how)
		enter("t" + strconv.Itoa(2+i))
		nodes[i].start()
	}
	nodes[0].stop(os.Kill)
	enter("t4")
}
