package node_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/client"
	"roomd/transport/node"
	"roomd/transport/protocol"
)

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
		for _, name := range []string{"game_hands_total ", "roomd_members ", `roomd_actions_total{kind="join",result="ok"} `} {
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
