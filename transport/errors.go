package transport

import (
	"errors"

	"roomd/room"
	"roomd/transport/protocol"
)

// codes says what each error of package room is called in the protocol.
var codes = []struct {
	err  error
	code string
	text string // shown instead of the error's own, which could name our Redis
}{
	{room.ErrInvalid, protocol.CodeBadRequest, ""},
	{room.ErrFull, protocol.CodeRoomFull, ""},
	{room.ErrSeatTaken, protocol.CodeSeatTaken, ""},
	{room.ErrDuplicate, protocol.CodeDuplicateUser, ""},
	{room.ErrNotMember, protocol.CodeNotMember, ""},
	{room.ErrBusy, protocol.CodeBusy, ""},
	{room.ErrUnknown, protocol.CodeUnknown, "it may or may not have been written; ask for users"},
	{room.ErrUnavailable, protocol.CodeUnavailable, "the room's store cannot be reached; nothing was written"},
	{room.ErrClosed, protocol.CodeUnavailable, "this node is shutting down; nothing was written"},
}

// toProtocol turns an error of package room into the one that a client gets.
func toProtocol(err error) *protocol.Error {
	for _, c := range codes {
		if !errors.Is(err, c.err) {
			continue
		}
		if c.text != "" {
			return protocol.NewError(c.code, "%s", c.text)
		}
		return protocol.NewError(c.code, "%v", err)
	}
	return protocol.NewError(protocol.CodeInternal, "the server failed; nothing was written")
}
