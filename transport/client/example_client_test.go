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

// A client joins a room and prints what happens there, until an admin throws it out. Meanwhile its
// node restarts.
func ExampleConnect() {
	address, stop := serveScript(
		"join: seat 1 of version 2",
		"done", // the ready
		`{"event":"changes","room":"42","epoch":"e","version":3,"from":2,"changes":[{"type":"message","user":"李四","text":"hello"}]}`,
		"close 1012",
		"join: seat 1 of version 5",
		"done",
		`{"event":"lost","room":"42","reason":"kicked","text":"too late"}`,
	)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{Addresses: []string{address}, User: "张三"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	room, err := c.Join(ctx, "42")
	if errors.Is(err, protocol.ErrRoomFull) {
		fmt.Println("try another room")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	for change := range room.Changes(ctx) {
		switch change.Type {
		case client.ChangeSnapshot:
			fmt.Println("version", change.Version, "with", len(change.View.Users), "users; my seat is", change.View.Seat)
			if err := room.Ready(ctx, true); err != nil {
				log.Fatal(err)
			}
		case protocol.ChangeMessage:
			fmt.Println(change.User, "says", change.Text)
		}
	}
	var lost *client.LostError
	if errors.As(room.Err(), &lost) {
		fmt.Println("lost:", lost.Reason, "-", lost.Text)
	}
	// Output:
	// version 2 with 2 users; my seat is 1
	// 李四 says hello
	// version 5 with 2 users; my seat is 1
	// lost: kicked - too late
}

// Two players raise the pot at the same time, and neither bet is lost.
func ExampleRoom_Update() {
	address, stop := serveScript(
		"join: seat 1 of version 2",
		`conflict: {"pot":30}`,
		"done",
	)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{Addresses: []string{address}, User: "张三"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	room, err := c.Join(ctx, "42")
	if err != nil {
		log.Fatal(err)
	}
	var table struct {
		Pot int `json:"pot"`
	}
	err = room.Update(ctx, func(old protocol.JSON) (any, error) {
		if err := old.Decode(&table); err != nil {
			return nil, err
		}
		table.Pot += 5
		fmt.Println("I make it", table.Pot)
		return table, nil
	})
	fmt.Println("the pot is", table.Pot, err)
	// Output:
	// I make it 5
	// I make it 35
	// the pot is 35 <nil>
}

// A program shows whether it is connected, until a newer session of the user takes over.
func ExampleClient_States() {
	address, stop := serveScript(
		"join: seat 1 of version 2",
		"close 4001",
	)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{Addresses: []string{address}, User: "张三"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for state := range c.States(ctx) {
		fmt.Println(state)
		if state == client.Connected {
			if _, err := c.Join(ctx, "42"); err != nil {
				log.Fatal(err)
			}
		}
	}
	var closed *client.CloseError
	if errors.As(c.Err(), &closed) && closed.Code == protocol.CloseReplaced {
		fmt.Println("you play in another window")
	}
	// Output:
	// connected
	// lost
	// you play in another window
}

// A program shows the tables with a free seat, the fullest first, until the player has chosen one.
func ExampleClient_Lobby() {
	address, stop := serveScript()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{Addresses: []string{address}, User: "张三"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for list, err := range c.Lobby(ctx, client.LobbyQuery{Prefix: "table-", Free: 1, Sort: client.LobbyByMembers}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range list.Rooms {
			fmt.Println(r.Room, "has", r.Free, "of", r.Capacity, "seats free")
		}
		break
	}
	// Output:
	// table-2 has 1 of 4 seats free
	// table-1 has 3 of 4 seats free
}

// The errors of requests tell what a program may do next.
func ExampleRoom_Set() {
	address, stop := serveScript(
		"join: seat 1 of version 2",
		`conflict: {"pot":30}`,
		"read and close 1001",
		"join: seat 1 of version 5",
	)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{Addresses: []string{address}, User: "张三"})
	if err != nil {
		log.Fatal(err)
	}
	room, err := c.Join(ctx, "42")
	if err != nil {
		log.Fatal(err)
	}
	view := room.View()

	var conflict *client.ConflictError
	if err := room.Set(ctx, 1, client.Expect(view.Epoch, view.Version)); errors.As(err, &conflict) {
		fmt.Println("somebody was faster:", conflict.Data)
	}
	if err := room.Set(ctx, 2); errors.Is(err, protocol.ErrUnknown) {
		fmt.Println("done or not: look at the room")
	}
	c.Close()
	if err := room.Set(ctx, 3); errors.Is(err, client.ErrClosed) {
		fmt.Println("this client has ended")
	}
	// Output:
	// somebody was faster: {"pot":30}
	// done or not: look at the room
	// this client has ended
}
