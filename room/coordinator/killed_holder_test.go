package coordinator

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// holderEnv makes the test binary a process that takes LockRoom:42, says so, and
// never goes on. Its value is the address of Redis.
const holderEnv = "ROOM_TEST_HOLDER"

func beHolder(addr string) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		if isScript(cmd, store.CommitScript) {
			fmt.Println("holding")
			select {}
		}
		return nil
	}})
	c, err := New(rdb, Options{})
	if err != nil {
		panic(err)
	}
	_, err = c.Do(context.Background(), "42", room.Join{User: "张三", Session: "s"})
	panic(fmt.Sprint("the holder went on: ", err))
}

// A node is killed in the middle of a hold. Its room is blocked for what is left
// of the TTL; then the next node gets in, and nothing of the dead one's action
// is there.
func TestHold_KilledHolder(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	rdb := server.Client()
	holder := exec.Command(os.Args[0], "-test.run=^$")
	holder.Env = append(os.Environ(), holderEnv+"="+server.Addr())
	holder.Stderr = os.Stderr
	out, err := holder.StdoutPipe()
	redistest.OK(t, err)
	redistest.OK(t, holder.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "holding") {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	redistest.OK(t, holder.Process.Kill())
	_ = holder.Wait()

	dead := rdb.Get(t.Context(), "LockRoom:42").Val()
	if ttl := rdb.PTTL(t.Context(), "LockRoom:42").Val(); !strings.HasPrefix(dead, "42:") || ttl <= 0 || ttl > lockmgr.DefaultTTL {
		t.Fatalf("LockRoom:42 holds %q for %v", dead, ttl)
	}
	r := mustDo(t, newCoordinator(t, rdb, Options{}), "42", room.Join{User: "李四", Session: "s"})
	if got := describeUsers(r.Users()); got != "李四@0" || r.Version != 1 {
		t.Errorf("the room holds %q at version %d", got, r.Version)
	}
	if n := rdb.Exists(t.Context(), "LockRoom:42").Val(); n != 0 {
		t.Error("LockRoom:42 is left over")
	}
}
