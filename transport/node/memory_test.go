package node

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// resident returns the memory of a process in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("the memory of a process cannot be read here: %v", err)
	}
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatal("no VmRSS")
	}
	kib, _ := strconv.Atoi(string(found[1]))
	return kib << 10
}

// How much memory a seated player takes, of a node and of Redis. The manual computes with it.
func TestMemory_Players(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	const players, table = 2000, 4
	server := redistest.Start(t)
	p := prepare(t, server.URL(), "--max-per-address", "off")
	p.start()
	rdb := server.Client()
	used := func() int {
		found := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(rdb.Info(t.Context(), "memory").Val())
		n, _ := strconv.Atoi(found[1])
		return n
	}
	nodeBefore, redisBefore := resident(t, p.cmd.Process.Pid), used()
	var mu sync.Mutex
	var clients []*client.Conn
	var work errgroup.Group
	work.SetLimit(50)
	for i := range players {
		work.Go(func() error {
			c, err := client.Dial(t.Context(), "ws://"+p.addr+"/ws", client.Options{User: fmt.Sprintf("player-%05d", i)})
			if err != nil {
				return err
			}
			mu.Lock()
			clients = append(clients, c)
			mu.Unlock()
			_, err = c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: fmt.Sprintf("table-%04d", i/table)})
			return err
		})
	}
	err := work.Wait()
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	redistest.OK(t, err)
	node, redis := (resident(t, p.cmd.Process.Pid)-nodeBefore)/players, (used()-redisBefore)/players
	t.Logf("%d players at tables of %d: %d KiB of the node and %d bytes of Redis each", players, table, node>>10, redis)
	if node > 128<<10 || redis > 4<<10 {
		t.Error("far more than the manual says")
	}
	if keys := rdb.Keys(t.Context(), "Room:*:Users").Val(); len(keys) != players/table {
		t.Errorf("%d rooms, such as %s", len(keys), strings.Join(keys[:min(3, len(keys))], ", "))
	}
	p.stop(syscall.SIGTERM)
}
