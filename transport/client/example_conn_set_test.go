package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/client"
	"roomd/transport/protocol"
)

// Compare and set: two players raise the pot at the same time, and neither bet is lost.
func ExampleConn_Set() {
	address, stop := serveBets()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, address, client.Options{User: "张三"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	reply, err := c.Join(ctx, "42")
	if err != nil {
		log.Fatal(err)
	}
	epoch, version, data := reply.Epoch, reply.Version, reply.Data
	for {
		var table struct {
			Pot int `json:"pot"`
		}
		if err := data.Decode(&table); err != nil {
			log.Fatal(err)
		}
		table.Pot += 5
		_, err := c.Set(ctx, "42", table, client.Expect(epoch, version))
		var conflict *client.ConflictError
		if errors.As(err, &conflict) {
			fmt.Println("somebody was faster:", conflict.Data)
			epoch, version, data = conflict.Epoch, conflict.Version, conflict.Data
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("the pot is", table.Pot)
		return
	}
	// Output:
	// somebody was faster: {"pot":30}
	// the pot is 35
}

// serveBets starts a server with a room in which another player raises the pot from 10 to 30
// just after the join.
func serveBets() (address string, stop func()) {
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol.Subprotocol}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		reply := protocol.Reply{Room: "42", Epoch: "e", Version: 8, Count: 1, Data: `{"pot":10}`}
		for {
			_, frame, err := conn.ReadMessage()
			if err != nil {
				return
			}
			req, _ := protocol.DecodeRequest(frame)
			reply.ID, reply.Error = &req.ID, nil
			if req.Action == protocol.ActionSet && *req.Expect < reply.Version {
				reply.Error = protocol.NewError(protocol.CodeConflict, "the data has changed in version %d", reply.Version)
			}
			_ = conn.WriteMessage(websocket.TextMessage, protocol.AppendReply(nil, &reply))
			reply.Version, reply.Data = 9, `{"pot":30}`
		}
	}))
	return "ws" + strings.TrimPrefix(server.URL, "http"), server.Close
}
