package chaos

import (
	"context"
	"strings"
	"time"

	"roomd/lockmgr/redisconn/pause"
)

var failoverFaults = []*Fault{
	{
		Name: "failover", What: "an operator has a replica take over", Profiles: []string{Sentinel, Cluster},
		loses: failedOver, splits: true, evicts: true, lasts: 4 * time.Second,
		inject: func(ctx context.Context, i *injection) (heal, error) {
			room := i.room()
			for { // the voters may not agree yet on the primary
				s, err := i.run.store.failOver(ctx, room)
				if s != nil {
					i.on = s.Name
				}
				if err == nil || pause.For(ctx, 10*lookPause) != nil {
					return nil, err
				}
			}
		},
	},
	{
		Name: "slot-move", What: "the slots of two rooms move to other primaries", Profiles: []string{Cluster},
		evicts: true,
		inject: func(ctx context.Context, i *injection) (heal, error) {
			all := i.run.store
			for range 2 {
				room := i.room()
				to, err := all.moveSlot(ctx, room, i.random.IntN(2))
				for err != nil { // the servers may not agree yet on the owner of the slot
					// another fault has filled the servers; the slot can move after it
					if strings.Contains(err.Error(), "OOM") {
						i.on = strings.TrimPrefix(i.on+", "+room+" at the end", ", ")
						return func(ctx context.Context) error { _, err := all.moveSlot(ctx, room, 0); return err }, nil
					}
					if pause.For(ctx, 10*lookPause) != nil {
						return nil, err
					}
					to, err = all.moveSlot(ctx, room, i.random.IntN(2))
				}
				i.on = strings.TrimPrefix(i.on+", "+room+" to "+to.Name, ", ")
			}
			return nil, nil
		},
	},
}
