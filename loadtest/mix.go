package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"roomd/loadtest/check"
	"roomd/loadtest/report"
	"roomd/room"
	"roomd/transport/protocol"
)

// Actions of a run in addition to joins, leaves and reads; see Config.Mix.
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

// Actions that are counted separately within their mix.
const (
	actionWhisper = "whisper" // a message to some
	actionMember  = "member"  // data of a member
	actionParty   = "match party"
	actionOpen    = "open" // counts as configure: opens a room of hosts, with its old settings
)

// played is an action of a run.
type played struct {
	name   string // name in the tally
	mix    string // its mix; "" if it belongs to every run
	action string // of the protocol; "" if only the API has it, and for several
	admin  bool   // the administrator does it, and not players
}

// plays has all actions in the order of the report. The protocol's table describes them.
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
	{actionOpen, MixHost, protocol.ActionConfigure, true}, // reopens rooms that their hosts have closed
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

// MixNames has the possible names in Config.Mix.
var MixNames = mixes(func(played) bool { return true })

// mixes returns the mixes with an action that has accepts, in order.
func mixes(has func(played) bool) (names []string) {
	for _, p := range plays {
		if p.mix != "" && has(p) && !slices.Contains(names, p.mix) {
			names = append(names, p.mix)
		}
	}
	return names
}

// CheckMix returns an error, like Config.Validate, if a name is not in MixNames.
func CheckMix(names []string) error {
	return report.CheckNames("mix", ExpandMix(names), MixNames)
}

// ExpandMix replaces a lone all by MixNames, and a lone none by no names.
func ExpandMix(names []string) []string {
	switch {
	case slices.Equal(names, []string{"all"}):
		return MixNames
	case slices.Equal(names, []string{"none"}):
		return nil
	}
	return names
}

// mixOf returns the part of a mix for players, or for the administrator.
func mixOf(mix []string, admin bool) []string {
	return mixes(func(p played) bool { return p.admin == admin && slices.Contains(mix, p.mix) })
}

// countedAs returns an operation's name in a report.
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

// name returns the i-th player's name as the player types it, and in the server's normal form. Some of the
// names break code that was only tried with ASCII.
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
