package main

import (
	"errors"
	"slices"
	"time"

	"roomd/transport/client/referee"
	"roomd/transport/protocol"
)

// game is what everybody at the table sees. A card is a number: card/13 is its suit, and of a suit the higher one is
// the better.
type game struct {
	Deck    string         `json:"deck"`    // the nonce by which it was shuffled
	Players []string       `json:"players"` // from who leads the trick on
	Trick   []int          `json:"trick"`   // the cards that they have played
	Last    []int          `json:"last"`    // the trick before, which who leads has taken
	Turn    string         `json:"turn"`    // empty if no game is on
	Tricks  map[string]int `json:"tricks"`  // that each has taken
	clock   time.Duration  // of a turn
}

// Moved gets a card, or "deal", by which the host begins a game and asks for another one.
func (g *game) Moved(t *referee.Table, user string, move protocol.JSON) error {
	users, card := t.Users(), 0
	switch {
	case move == `"deal"` && user == t.View().Host && g.Turn == "" && len(users) >= 2:
		*g = game{Deck: t.Nonce(), Players: users[:min(4, len(users))], Turn: users[0], Tricks: map[string]int{},
			clock: g.clock}
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
	_ = t.Hand(g.Turn, &cards) // it is as this game has dealt it
	return cards
}

// led returns those of the cards that are of the suit which was led.
func (g *game) led(cards []int) []int {
	return slices.DeleteFunc(slices.Clone(cards), func(card int) bool {
		return len(g.Trick) > 0 && card/13 != g.Trick[0]/13
	})
}

// playable returns those cards of who has the turn that follow suit, or all if none does.
func (g *game) playable(t *referee.Table) []int {
	if led := g.led(g.hand(t)); len(led) > 0 {
		return led
	}
	return g.hand(t)
}

// play puts down a card of who has the turn. The next one has it then, or who has taken the trick.
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

// Timer plays for who is slow.
func (g *game) Timer(t *referee.Table, _ string) {
	if cards := g.playable(t); len(cards) > 0 {
		g.play(t, cards[0])
	}
}

// Joined has a new member wait for the next game.
func (g *game) Joined(*referee.Table, string) {}

// Left ends the game: cards are missing.
func (g *game) Left(t *referee.Table, user string) {
	if g.Turn != "" && slices.Contains(g.Players, user) {
		g.Turn, g.Tricks = "", nil
		t.Say(map[string]string{"over": user + " has left: the game is over"})
		t.StopTimer("turn")
	}
}
