package coordinator_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/room"
	"roomd/room/coordinator"
)

func Example() {
	server := embedded.Start() // stands for your own Redis
	defer server.Close()
	client := redis.NewClient(server.Options())
	defer client.Close()
	ctx := context.Background()

	rooms, err := coordinator.New(client, coordinator.Options{Rules: room.Rules{Seating: room.Capacity(3)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rooms.Close(ctx)

	for _, user := range []string{"李四", "王五", "张三"} {
		r, err := rooms.Do(ctx, "42", room.Join{User: user, Session: "session of " + user})
		fmt.Println(user, "sits on", r.Seat, "at version", r.Version, err)
	}
	_, err = rooms.Do(ctx, "42", room.Join{User: "赵六", Session: "session of 赵六"})
	fmt.Println(err, errors.Is(err, room.ErrFull))
	// Output:
	// 李四 sits on 0 at version 1 <nil>
	// 王五 sits on 1 at version 2 <nil>
	// 张三 sits on 2 at version 3 <nil>
	// room 42 is full: 3 of 3 seats taken true
}
