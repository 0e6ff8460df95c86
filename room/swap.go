package room

import (
	"fmt"
	"math/rand/v2"
)

// Swap exchanges two members' seats, whatever Rules.Seating says. It needs authority over the room, or a host's
// [Claim].
type Swap struct {
	Users []string
	As    Claim // the host's claim; zero with authority
}

func (Swap) kind() Kind              { return kindSwap }
func (Swap) subject() (string, bool) { return "", true }

func (a Swap) check(Rules) (_ Action, err error) {
	if len(a.Users) != 2 {
		return nil, &InvalidError{"users", fmt.Sprintf("must name 2 users, not %d", len(a.Users))}
	}
	if a.Users, err = parseUsers("users", a.Users); err == nil {
		a.As, err = a.As.check()
	}
	return a, err
}

func (a Swap) apply(r *Room, _ Rules, by Origin) (int, error) {
	if err := a.As.prove(r, by); err != nil {
		return 0, err
	}
	var seats [2]int
	for i, user := range a.Users {
		m, ok := r.Member(user)
		if !ok {
			return 0, absent(r, user)
		}
		seats[1-i] = m.Seat
	}
	for i, user := range a.Users {
		r.reseat(user, seats[i])
	}
	return 0, nil
}

// Shuffle gives each member another member's seat at random: each arrangement in which nobody keeps the seat is
// equally likely. A member who is alone stays. Rules.Seating is not asked. It needs authority, or a host's [Claim].
type Shuffle struct {
	As   Claim  // the host's claim; zero with authority
	Seed uint64 // random, chosen by the caller: one seed has one result for one room, however often it is applied
}

func (Shuffle) kind() Kind              { return kindShuffle }
func (Shuffle) subject() (string, bool) { return "", true }

func (a Shuffle) check(Rules) (_ Action, err error) {
	a.As, err = a.As.check()
	return a, err
}

func (a Shuffle) apply(r *Room, _ Rules, by Origin) (int, error) {
	if err := a.As.prove(r, by); err != nil {
		return 0, err
	}
	users := r.Snapshot().Users() // by seat
	if len(users) < 2 {
		return 0, nil
	}
	random := rand.New(rand.NewPCG(a.Seed, 0))
	order := random.Perm(len(users))
	for keepsAny(order) { // one permutation in three keeps none
		order = random.Perm(len(users))
	}
	for i, o := range users {
		r.reseat(o.User, users[order[i]].Seat)
	}
	return 0, nil
}

func keepsAny(order []int) bool {
	for i, to := range order {
		if i == to {
			return true
		}
	}
	return false
}

// reseat gives a member another seat. The seat's present member must get another one in the same action.
func (r *Room) reseat(user string, seat int) {
	m, _ := r.Member(user)
	r.update(m.Node, Update{Type: kindSeat, User: user, Seat: seat})
}
