package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"roomd/transport/client"
	"roomd/transport/protocol"
)

func ExampleDial() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "ws://127.0.0.1:8080/ws", client.Options{
		User: "张三",
		OnEvent: func(e *protocol.Event) {
			for _, change := range e.Changes {
				fmt.Println(change.User, change.Type, "seat", change.Seat)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	reply, err := c.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"})
	switch {
	case errors.Is(err, protocol.ErrRoomFull):
		fmt.Println("try another room")
		return
	case errors.Is(err, client.ErrClosed):
		fmt.Println("connect again, then ask for the users")
		return
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println("seat", *reply.Seat, "beside", reply.Users)
}

// Compare and set: two players raise the pot at the same time, and neither bet is lost.
func ExampleConn_Do() {
	address, stop := serveScript("join: seat 1 of version 2", `conflict: {"pot":30}`, "done")
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, address, client.Options{User: "张三"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	reply, err := c.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"})
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
		next := protocol.JSON(fmt.Sprintf(`{"pot":%d}`, table.Pot))
		_, err := c.Do(ctx, protocol.Request{Action: protocol.ActionSet, Room: "42", Data: next, Epoch: epoch, Expect: &version})
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
