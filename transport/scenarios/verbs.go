package scenarios

import "context"

// verb does a step, as the head of list.txt explains it.
type verb struct {
	play  func(*player, context.Context, step) error
	means string // what the client must do, for an error
}

const scripted = "the step needs a connection of the client"

var verbs = map[string]verb{
	"call":     {(*player).call, "the program must be able to carry this out"},
	"gives":    {(*player).gives, "the command must have this answer"},
	"read":     {(*player).begin, "an iteration over the room's changes must begin"},
	"next":     {(*player).next, "the iteration must yield this next"},
	"end":      {(*player).next, "the iteration must be over"},
	"see":      {(*player).observe, "the room must show this at last"},
	"ended":    {(*player).observe, "the room must have ended with this at last"},
	"state":    {(*player).observe, "the client must have this state at last"},
	"accept":   {(*player).decide, "the client must connect"},
	"refuse":   {(*player).decide, "the client must try to connect"},
	">":        {(*player).converse, "the client must send this request"},
	"<":        {(*player).converse, scripted},
	"hears":    {(*player).converse, "the client must send a ping"},
	"silence":  {(*player).converse, scripted},
	"flood":    {(*player).converse, scripted},
	"close":    {(*player).converse, scripted},
	"cut":      {(*player).converse, scripted},
	"closed":   {(*player).converse, "the client must close the connection with this code"},
	"asks":     {(*player).lobbyAsked, "the client must ask for the lobby"},
	"denies":   {(*player).lobbyAsked, "the client must ask for the lobby"},
	"tells":    {(*player).tell, "the client must listen to the lobby"},
	"ends":     {(*player).tell, "the client must listen to the lobby"},
	"list":     {(*player).list, "the lobby must show this at last"},
	"nodes":    {(*player).start, "the nodes must start"},
	"node":     {(*player).disturb, "the node must obey"},
	"redis":    {(*player).disturb, "Redis must obey"},
	"lose":     {(*player).disturb, "the client must be connected"},
	"guest":    {(*player).guest, "the node must do this for another connection"},
	"api":      {(*player).shown, "the node must show operators this at last"},
	"operator": {(*player).operate, "the node must do this for an operator"},
}
