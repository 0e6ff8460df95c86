package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/client"
	"roomd/transport/node"
	"roomd/transport/protocol"
)

// invited is a rule of a game: only some users may come in, on the seats of room.Capacity.
type invited struct {
	room.Capacity
	users map[string]bool
}

func (i invited) Seat(in room.View, user string, asked int) (int, error) {
	if !i.users[user] {
		return 0, room.Forbid("%s is not invited to room %s", user, in.ID())
	}
	return i.Capacity.Seat(in, user, asked)
}

// A server of your own with a rule of your own: the main function of a game.
func Example() {
	ctx := context.Background()
	db, err := redisurl.Open(redisurl.Embedded) // or redis://127.0.0.1:6379
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	n, err := node.Start(ctx, node.Config{
		Listen: "127.0.0.1:0",
		Redis:  db,
		Room: coordinator.Options{Rules: room.Rules{
			Seating: invited{room.Capacity(4), map[string]bool{"李四": true}},
			Starter: room.AllReady(2),
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer n.Shutdown(ctx)

	for _, user := range []string{"李四", "张三"} {
		c, err := client.Dial(ctx, n.URL(), client.Options{User: user})
		if err != nil {
			fmt.Println(err)
			return
		}
		reply, err := c.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"})
		if errors.Is(err, protocol.ErrForbidden) {
			fmt.Println(err)
		} else {
			fmt.Println(user, "sits on seat", *reply.Seat)
		}
		c.Close()
	}
	// Output:
	// 李四 sits on seat 0
	// client: join of room "42": forbidden: 张三 is not invited to room 42
}

// A program with metrics of its own serves those of its node beside them. One without sets AdminListen alone, and finds
// /metrics and the operators' page there.
func Example_metrics() {
	ctx := context.Background()
	db, err := redisurl.Open(redisurl.Embedded) // or redis://127.0.0.1:6379
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	own := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	hands := prometheus.NewCounter(prometheus.CounterOpts{Name: "game_hands_total", Help: "Hands that were dealt."})
	own.MustRegister(hands)

	n, err := node.Start(ctx, node.Config{Listen: "127.0.0.1:0", Redis: db, Registerer: own})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer n.Shutdown(ctx)
	c, err := client.Dial(ctx, n.URL(), client.Options{User: "李四"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	if _, err := c.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil {
		fmt.Println(err)
		return
	}
	hands.Inc()

	game := httptest.NewServer(promhttp.HandlerFor(own, promhttp.HandlerOpts{})) // at /metrics of the game's own server
	defer game.Close()
	resp, err := http.Get(game.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		for _, name := range []string{"game_hands_total ", "roomd_members ",
			`roomd_actions_total{kind="join",result="ok"} `} {
			if strings.HasPrefix(lines.Text(), name) {
				fmt.Println(lines.Text())
			}
		}
	}
	// Output:
	// game_hands_total 1
	// roomd_actions_total{kind="join",result="ok"} 1
	// roomd_members 1
}
