// Command teams is roomd for a game of two teams of two: names that begin with red- or blue- are invited,
// red sits on the seats 0 and 2, blue on 1 and 3, and the game begins when all four are ready.
package main

import (
	"strings"

	"roomd/room"
	"roomd/transport/node"
)

var teams = []string{"red-", "blue-"}

// seating gives each player a seat of their own team.
type seating struct{}

// Seats is how many seats a room has.
func (seating) Seats() int { return 4 }

// Seat returns the first free seat of the user's team, or the one asked for.
func (seating) Seat(in room.View, user string, asked int) (int, error) {
	for team, prefix := range teams {
		if !strings.HasPrefix(user, prefix) {
			continue
		}
		for seat := team; seat < 4; seat += len(teams) {
			if in.UserAt(seat) == "" && (asked == room.AnySeat || asked == seat) {
				return seat, nil
			}
		}
		return 0, room.Refuse(room.ErrFull, "the team %s of room %s has no such seat free", strings.TrimSuffix(prefix, "-"), in.ID())
	}
	return 0, room.Forbid("%s is not invited to room %s", user, in.ID())
}

func main() {
	node.Main(room.Rules{Name: "teams-1", Seating: seating{}, Starter: room.AllReady(4)})
}
