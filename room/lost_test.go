package room

import (
	"testing"

	"roomd/lockmgr/redistest"
)

// A failover loses the last commit of one node, and before that notices another node's
// has the same version. The first must not build on what it remembers.
func TestTheSameVersionTwice(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	a, b := newCoordinator(t, server.Client(), Options{}), newCoordinator(t, server.Client(), Options{})
	first := mustDo(t, a, "42", Join("李四", "s1"))
	replica := make(map[string]string)
	for _, key := range []string{"Room:42:Users", "Room:42:Meta"} {
		replica[key] = rdb.Dump(t.Context(), key).Val()
	}
	mustDo(t, a, "42", Join("王五", "s2"))
	for key, value := range replica {
		if err := rdb.RestoreReplace(t.Context(), key, 0, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	mustDo(t, b, "42", Join("张三", "s3")) // version 2 again
	r := mustDo(t, a, "42", Join("赵六", "s4"))
	if got := describeUsers(r.Users()); got != "李四@0 张三@1 赵六@2" || r.Version != 3 || r.Epoch == first.Epoch {
		t.Errorf("the node that lost a commit says %s at version %d of epoch %s", got, r.Version, r.Epoch)
	}
	if s, err := b.Read(t.Context(), "42"); err != nil || describeUsers(s.Users()) != describeUsers(r.Users()) {
		t.Errorf("the room is %s, %v", describeUsers(s.Users()), err)
	}
}
