package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"roomd/loadtest/check"
	"roomd/room"
	"roomd/transport/protocol"
)

// What a run can have besides joins, leaves and reads; see Config.Mix.
const (
	MixReady     = "ready"     // members say that they are ready, or not
	MixData      = "data"      // members set data of the room, half of them by compare-and-set, and their own
	MixPrivate   = "private"   // members set private data of their own
	MixTimer     = "timer"     // members set timers of the room, which fire soon, and cancel some
	MixSay       = "say"       // members send messages to all, or to some
	MixConfigure = "configure" // capacities change, and rooms are closed for a moment
	MixKick      = "kick"      // players are thrown out, some with a short ban
	MixClose     = "close"     // everybody has to leave a room
	MixDeal      = "deal"      // members are dealt private data, several at once
	MixParty     = "party"     // seats are reserved for several users at once, and given back
	MixMove      = "move"      // members are taken to another room
	MixSeats     = "seats"     // two members exchange their seats, or all of a room change places
	MixHost      = "host"      // rooms have a host, who does what an administrator may
	MixMatch     = "match"     // players, and parties, look for a table, and new rooms begin
)

// The actions that are counted apart from those of their mix.
const (
	actionWhisper = "whisper" // a message to some
	actionMember  = "member"  // data of a member
	actionParty   = "match party"
	actionOpen    = "open" // counts as configure: a room of hosts, with the settings of before
)

// played is an action of a run.
type played struct {
	name   string // that the tally counts
	mix    string // of which it is a part; empty if every run has it
	action string // of the protocol; empty for what only the API can do, and for several
	admin  bool   // the administrator does it, and not players
}

// plays are all of them, in the order of the report. What the protocol says of an action stands in its table.
var plays = []played{
	{protocol.ActionJoin, "", protocol.ActionJoin, false},
	{protocol.ActionLeave, "", protocol.ActionLeave, false},
	{protocol.ActionUsers, "", protocol.ActionUsers, false},
	{MixReady, MixReady, protocol.ActionReady, false},
	{MixData, MixData, protocol.ActionSet, false},
	{actionMember, MixData, protocol.ActionSet, false},
	{MixPrivate, MixPrivate, protocol.ActionSet, false},
	{MixTimer, MixTimer, protocol.ActionTimer, false},
	{MixSay, MixSay, protocol.ActionSay, false},
	{actionWhisper, MixSay, protocol.ActionSay, false},
	{MixHost, MixHost, "", false},
	{actionOpen, MixHost, protocol.ActionConfigure, true}, // or else a room that its host has closed would stay so
	{MixMatch, MixMatch, protocol.ActionMatch, false},
	{actionParty, MixMatch, "", true},
	{MixConfigure, MixConfigure, protocol.ActionConfigure, true},
	{MixKick, MixKick, protocol.ActionKick, true},
	{MixClose, MixClose, protocol.ActionClose, true},
	{protocol.ActionSwap, MixSeats, protocol.ActionSwap, true},
	{protocol.ActionShuffle, MixSeats, protocol.ActionShuffle, true},
	{MixDeal, MixDeal, "", true},
	{MixParty, MixParty, "", true},
	{MixMove, MixMove, "", true},
}

// MixNames are the names that Config.Mix can have.
var MixNames = mixes(func(played) bool { return true })

// mixes returns the names of the mixes that have such an action, in order.
func mixes(has func(played) bool) (names []string) {
	for _, p := range plays {
		if p.mix != "" && has(p) && !slices.Contains(names, p.mix) {
			names = append(names, p.mix)
		}
	}
	return names
}

// CheckMix returns an error, as that of Config.Validate, if a name is none of MixNames.
func CheckMix(names []string) error {
	for _, name := range ExpandMix(names) {
		if !slices.Contains(MixNames, name) {
			return fmt.Errorf("mix is %q, it must be of %s", name, strings.Join(MixNames, ", "))
		}
	}
	return nil
}

// ExpandMix returns the names that all and none stand for, if they stand alone.
func ExpandMix(names []string) []string {
	switch {
	case slices.Equal(names, []string{"all"}):
		return MixNames
	case slices.Equal(names, []string{"none"}):
		return nil
	}
	return names
}

// mixOf returns what of a mix is for players, or for the administrator.
func mixOf(mix []string, admin bool) []string {
	return mixes(func(p played) bool { return p.admin == admin && slices.Contains(mix, p.mix) })
}

// countedAs returns the name under which a report counts an operation.
func countedAs(op *check.Op) string {
	switch op.Action {
	case check.SetData:
		return MixData
	case check.StopTimer:
		return MixTimer
	case check.Say:
		if len(op.Users) > 0 {
			return actionWhisper
		}
	case check.Reserve:
		if op.Settings != nil {
			return actionParty
		}
		return MixParty
	case check.Release:
		return MixParty
	case check.MoveOut, check.MoveIn:
		return MixMove
	}
	if op.AsHost {
		return MixHost
	}
	return op.Action
}

// name returns the i-th player's name as the player types it, and in the server's normal
// form. Some of the names break code that was only tried with ASCII.
func name(i int) (typed, normal string) {
	switch i % 6 {
	case 0:
		typed = fmt.Sprintf("张三-%d", i)
	case 1:
		typed = fmt.Sprintf("🀄👩‍👩‍👧 %d", i)
	case 2: // the longest that is allowed
		typed = fmt.Sprint(i)
		typed += strings.Repeat("张", room.MaxUserLength-utf8.RuneCountInString(typed))
	case 3: // NFC merges the accent into its letter
		typed = fmt.Sprintf("Jose\u0301 %d", i)
	case 4:
		typed = fmt.Sprintf(`"<%d>&\'{}:* %%`, i)
	default:
		typed = fmt.Sprintf("player-%d", i)
	}
	return typed, norm.NFC.String(typed)
}
