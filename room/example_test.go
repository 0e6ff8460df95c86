package room_test

import (
	"errors"
	"fmt"

	"roomd/room"
)

// invited lets only certain users in.
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

// Only invited users may join.
func ExampleSeating_invited() {
	rules := room.Rules{Seating: invited{room.Capacity(4), map[string]bool{"李四": true, "王五": true}}}
	table := room.NewRoom("42", room.Position{}, map[string]room.Member{})
	for _, user := range []string{"李四", "张三", "王五"} {
		seat, err := table.Apply(room.Join{User: user, Session: "session"}, rules, room.Origin{})
		fmt.Println(user, seat, err, errors.Is(err, room.ErrForbidden))
	}
	// Output:
	// 李四 0 <nil> false
	// 张三 0 张三 is not invited to room 42 true
	// 王五 1 <nil> false
}

// teams seats two teams of two: red on 0 and 1, blue on 2 and 3.
type teams struct {
	room.Capacity
	blue map[string]bool
}

func (t teams) Seat(in room.View, user string, asked int) (int, error) {
	first := 0
	if t.blue[user] {
		first = 2
	}
	if asked != room.AnySeat && asked/2 != first/2 {
		return 0, room.Forbid("seat %d is the other team's", asked)
	}
	for seat := first; seat < first+2 && asked == room.AnySeat; seat++ {
		if in.UserAt(seat) == "" {
			asked = seat
		}
	}
	if asked == room.AnySeat {
		return 0, room.Refuse(room.ErrFull, "the team of %s is full", user)
	}
	return t.Capacity.Seat(in, user, asked)
}

// Two teams of two play against each other.
func ExampleSeating_teams() {
	rules := room.Rules{Seating: teams{room.Capacity(4), map[string]bool{"王五": true, "张三": true, "周八": true}}}
	table := room.NewRoom("42", room.Position{}, map[string]room.Member{})
	for _, join := range []room.Join{
		{User: "王五", Session: "s"}, {User: "李四", Session: "s"}, {User: "张三", Session: "s", Seat: new(1)},
		{User: "张三", Session: "s"}, {User: "周八", Session: "s"},
	} {
		seat, err := table.Apply(join, rules, room.Origin{})
		fmt.Println(join.User, seat, err)
	}
	// Output:
	// 王五 2 <nil>
	// 李四 0 <nil>
	// 张三 0 seat 1 is the other team's
	// 张三 3 <nil>
	// 周八 0 the team of 周八 is full
}

// A room is made smaller, unless it has changed meanwhile, and closed.
func ExampleConfigure() {
	table := room.NewRoom("42", room.Position{}, map[string]room.Member{})
	do := func(a room.Action) {
		_, err := table.Apply(a, room.Rules{}, room.Origin{})
		if err == nil {
			table.Commit("epoch", "mark")
		}
		settings, _ := table.Settings()
		fmt.Println("version", table.Version, settings.Capacity, settings.Closed, err)
	}
	do(room.Join{User: "李四", Session: "session"})
	do(room.Configure{Settings: room.Settings{Capacity: 4}, Expect: room.ExpectVersion("", 7)})
	do(room.Configure{Settings: room.Settings{Capacity: 4, Closed: true}, Expect: room.ExpectVersion("", 1)})
	do(room.Join{User: "张三", Session: "session"})
	// Output:
	// version 1 0 false <nil>
	// version 1 0 false room 42 is not at version 7 any more
	// version 2 4 true <nil>
	// version 2 4 true room 42 is closed
}
