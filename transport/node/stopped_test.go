package node

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// A node stands still, and meanwhile its players come to another one, and half of them
// leave: before or after they were removed as a dead node's members. When it goes on, it
// learns who was replaced: those connections are closed, and nobody who left is back.
func TestNode_StoppedLearnsWhoCameElsewhere(t *testing.T) {
	const players = 40
	for name, grace := range map[string]string{"before they are removed": "1m", "after": "1ms"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			server := redistest.Start(t)
			nodes := launch(t, 2, server.URL(), "--grace", grace, "--node-ttl", "1s", "--lock-ttl", "1s")
			var f follower
			watcher := nodes[1].player("watcher", f.event)
			var old []*client.Conn

			for i := range players {
				user := fmt.Sprint("player", i)
				c := nodes[0].player(user, nil)
				join(t, c, "42")
				old = append(old, c)
			}
			f.event(&protocol.Event{Event: protocol.EventSnapshot, Users: join(t, watcher, "42").Users})
			_ = nodes[0].cmd.Process.Signal(syscall.SIGSTOP)
			rdb := server.Client()
			redistest.Until(t, "the lease of the stopped node ends", func() bool {
				return len(rdb.Keys(t.Context(), "Node:????????????????").Val()) == 1
			})
			if grace == "1ms" {
				f.until(t, time.Now(), "watcher")
			}
			want := []string{"watcher"}
			for i := range players {
				user := fmt.Sprint("player", i)
				c := nodes[1].player(user, nil)
				join(t, c, "42")
				if i%2 == 0 {
					want = append(want, user)
				} else if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionLeave, Room: "42"}); err != nil {
					t.Fatal(err)
				}
			}
			_ = nodes[0].cmd.Process.Signal(syscall.SIGCONT)
			for i, c := range old {
				select {
				case <-c.Done():
				case <-time.After(10 * time.Second):
					t.Fatalf("player%d: the old connection stands", i)
				}
				var closed *client.CloseError
				if !errors.As(c.Err(), &closed) || closed.Code != protocol.CloseReplaced {
					t.Errorf("player%d: %v", i, c.Err())
				}
			}
			f.until(t, time.Now(), want...)
		})
	}
}
