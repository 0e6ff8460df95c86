package metrics

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// On a Cluster pipelines go to each server by themselves, and count as well. They still are
// pipelines.
func TestRoundTripsOfACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client()
	m, h := newHandler(t, still{})
	m.Hook(rdb)
	c, err := coordinator.New(rdb, coordinator.Options{Trace: m.Rooms})
	redistest.OK(t, err)
	const rooms = 64
	join := func(i int) {
		if _, err := c.Do(t.Context(), fmt.Sprint(i), room.Join{User: "a", Session: "s"}); err != nil {
			t.Error(err)
		}
	}
	for i := range rooms { // one by one: on a busy machine a server may be too slow for its first requests together
		join(i)
	}
	var wg sync.WaitGroup
	for i := range rooms {
		wg.Go(func() {
			for range 9 {
				join(i)
			}
		})
	}
	wg.Wait()
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	expect(t, h, `roomd_actions_total{kind="join",result="ok"} 640`, `roomd_redis_errors_total{reason="no_answer"} 0`)
	var commands, single, pipelines float64
	for _, value := range []struct {
		of   string
		into *float64
	}{{"commands_total", &commands}, {`round_trip_seconds_count{kind="command"}`, &single}, {`round_trip_seconds_count{kind="pipeline"}`, &pipelines}} {
		*value.into = read(t, h, "roomd_redis_"+value.of)
	}
	redistest.ErrorIf(t, pipelines == 0 || commands < 640 || single+pipelines > commands,
		"%v commands in %v single requests and %v pipelines", commands, single, pipelines)
	t.Logf("%v commands in %v single requests and %v pipelines", commands, single, pipelines)
}
