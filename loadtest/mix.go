package loadtest

import (
	"fmt"
	"slices"
	"strings"
)

// What a run can have besides joins, leaves and reads; see Config.Mix. The first three are done
// by players who are members, the others by an administrator.
const (
	MixReady     = "ready"     // members say that they are ready, or not
	MixData      = "data"      // members set data of the room, half of them by compare-and-set, and their own
	MixSay       = "say"       // members send messages to all, or to some
	MixConfigure = "configure" // capacities change, and rooms are closed for a moment
	MixKick      = "kick"      // players are thrown out, some with a short ban
	MixClose     = "close"     // everybody has to leave a room
	MixParty     = "party"     // seats are reserved for several users at once, and given back
	MixMove      = "move"      // members are taken to another room
)

// MixNames are all of them.
var MixNames = []string{MixReady, MixData, MixSay, MixConfigure, MixKick, MixClose, MixParty, MixMove}

// talks are those of the players.
var talks = MixNames[:3]

func checkMix(names []string) error {
	for _, name := range names {
		if !slices.Contains(MixNames, name) {
			return fmt.Errorf("mix is %q, it must be of %s", name, strings.Join(MixNames, ", "))
		}
	}
	return nil
}

// of returns which of the names are in the mix, in order.
func (c Config) of(names []string) (mixed []string) {
	for _, name := range names {
		if slices.Contains(c.Mix, name) {
			mixed = append(mixed, name)
		}
	}
	return mixed
}
