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

	reply, err := c.Join(ctx, "42")
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

// A client with a token renews it before it expires.
func ExampleConn_Auth() {
	ctx := context.Background()
	login := func(context.Context) (string, error) { return "a token of the game's login", nil }
	c, err := client.Dial(ctx, "ws://127.0.0.1:8080/ws", client.Options{Token: login})
	if errors.Is(err, client.ErrUnauthorized) {
		fmt.Println("log in again")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	token, err := login(ctx)
	if err != nil {
		log.Fatal(err)
	}
	reply, err := c.Auth(ctx, token)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.User, "may stay until", time.Unix(reply.Expires, 0))
}

// Compare and set: two players raise the pot at the same time, and neither bet is lost.
func ExampleConn_Set() {
	address, stop := serveScript("join: seat 1 of version 2", `conflict: {"pot":30}`, "done")
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
