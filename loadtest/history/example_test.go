package history_test

import (
	"fmt"

	"roomd/loadtest/history"
)

// Two players get an acknowledgement of their joins, and one of them is not in the room at
// the end.
func Example() {
	ledger := history.NewLedger(history.Options{Capacity: 4})

	a := ledger.View("load-1", "李四", "player-1 on node-1")
	a.Joined(0, history.List{Epoch: "f3", Version: 1, Count: 1, Users: []history.Member{{User: "李四"}}})

	b := ledger.View("load-1", "张三", "player-2 on node-2")
	b.Joined(1, history.List{Epoch: "f3", Version: 2, Count: 2,
		Users: []history.Member{{User: "李四", Seat: 0}, {User: "张三", Seat: 1}}})
	a.Changed(history.Event{Epoch: "f3", From: 1, Version: 2,
		Changes: []history.Change{{Type: history.Join, User: "张三", Seat: 1}}})

	ledger.Check(map[string]history.RoomState{
		"load-1": {Epoch: "f3", Version: 2, Users: []history.Member{{User: "李四"}}},
	})
	fmt.Println(ledger.Violations().Verdict())
	for _, line := range ledger.Violations().Descriptions() {
		fmt.Println(line)
	}
	// Output:
	// inconsistent
	// room load-1 version 2: 张三's acknowledged join is missing from the list (seat 1) [lost]
}
