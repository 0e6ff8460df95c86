package main

import (
	"errors"
	"slices"
	"time"

	"roomd/transport/client/referee"
	"roomd/transport/protocol"
)

// game is the state that everybody at the table sees. card/13 is the suit of a card; within a suit the larger wins.
type game struct {
	Deck    string         `json:"deck"`    // the nonce of its shuffle
	Players []string       `json:"players"` // in turn; the first leads the trick
	Trick   []int          `json:"trick"`   // the cards of the current trick
	Last    []int          `json:"last"`    // the previous trick
	Turn    string         `json:"turn"`    // empty if no game is on
	Tricks  map[string]int `json:"tricks"`  // won by each player
	clock   time.Duration  // how long a turn lasts
}

// Moved handles a move: a card, or "deal", which lets the host start a game.
func (g *game) Moved(t *referee.Table, user string, move protocol.JSON) error {
	all, card := t.Users(), 0
	switch {
	case move == `"deal"` && user == t.View().Host && g.Turn == "" && len(all) >= 2:
		*g = game{Deck: t.Nonce(), Players: all[:min(4, len(all))], Turn: all[0], Tricks: map[string]int{}, clock: g.clock}
		cards := t.Rand(g.Deck).Perm(52)
		for i, player := range g.Players {
			t.Deal(player, cards[5*i:5*i+5])
		}
		t.SetTimer("turn", g.clock)
	case user == g.Turn && move.Decode(&card) == nil && slices.Contains(g.playable(t), card):
		g.play(t, card)
	default:
		return errors.New("you may not do that now")
	}
	return nil
}

func (g *game) hand(t *referee.Table) (cards []int) {
	_ = t.Hand(g.Turn, &cards) // it has the type that Moved dealt
	return cards
}

// led returns the cards that follow suit: all of them if the trick has no card yet.
func (g *game) led(cards []int) []int {
	return slices.DeleteFunc(slices.Clone(cards), func(c int) bool { return len(g.Trick) > 0 && c/13 != g.Trick[0]/13 })
}

// playable returns the cards that the player in turn may play: those that follow suit, or all if none does.
func (g *game) playable(t *referee.Table) []int {
	if led := g.led(g.hand(t)); len(led) > 0 {
		return led
	}
	return g.hand(t)
}

// play plays a card of the player in turn, and passes the turn on: to the winner after a complete trick.
func (g *game) play(t *referee.Table, card int) {
	t.Deal(g.Turn, slices.DeleteFunc(g.hand(t), func(other int) bool { return other == card }))
	if g.Trick = append(g.Trick, card); len(g.Trick) == len(g.Players) {
		best := slices.Index(g.Trick, slices.Max(g.led(g.Trick)))
		g.Players = slices.Concat(g.Players[best:], g.Players[:best])
		g.Tricks[g.Players[0]]++
		g.Last, g.Trick = g.Trick, nil
	}
	g.Turn = g.Players[len(g.Trick)]
	if t.SetTimer("turn", g.clock); len(g.hand(t)) == 0 {
		g.Turn = "" // the game is over
		t.StopTimer("turn")
	}
}

// Timer plays for a slow player.
func (g *game) Timer(t *referee.Table, _ string) {
	if cards := g.playable(t); len(cards) > 0 {
		g.play(t, cards[0])
	}
}

// Joined does nothing: a new member waits for the next game.
func (g *game) Joined(*referee.Table, string) {}

// Left ends the game, because cards are missing now.
func (g *game) Left(t *referee.Table, user string) {
	if g.Turn != "" && slices.Contains(g.Players, user) {
		g.Turn, g.Tricks = "", nil
		t.Say(map[string]string{"over": user + " has left: the game is over"})
		t.StopTimer("turn")
	}
}
