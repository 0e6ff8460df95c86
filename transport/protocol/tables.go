package protocol

import "roomd/room"

// codes are all codes of this version, and whether the same request may succeed soon. CodeDuplicateUser is not
// retryable: the other session may stay for hours. Only a client that reconnects retries it for a while: that session
// may be its own from before the network broke, which the server notices within two ping intervals. Nor is
// CodeUnknown retryable: the action may have been done, so a client asks for the users first.
var codes = []struct {
	code  string
	retry bool
}{
	{CodeBadRequest, false},
	{CodeUnknownAction, false},
	{CodeUnauthorized, false},
	{CodeForbidden, false},
	{CodeRoomFull, false},
	{CodeClosed, false},
	{CodeBanned, false},
	{CodeConflict, false},
	{CodeSeatTaken, false},
	{CodeDuplicateUser, false},
	{CodeNotMember, false},
	{CodeRateLimited, true},
	{CodeTooLarge, false},
	{CodeBusy, true},
	{CodeUnavailable, true},
	{CodeUnknown, false},
	{CodeInternal, false},
}

func retryable(code string) bool {
	for _, c := range codes {
		if c.code == code {
			return c.retry
		}
	}
	return false
}

// Codes returns the Code constants.
func Codes() (all []string) {
	for _, c := range codes {
		all = append(all, c.code)
	}
	return all
}

// Events returns the Event constants.
func Events() []string {
	return []string{EventChanges, EventSnapshot, EventLost, EventUnwatched, EventNode}
}

// Changes returns the Change constants.
func Changes() (all []string) {
	for _, kind := range room.ChangeKinds {
		all = append(all, string(kind))
	}
	return all
}

// Reasons returns the Reason constants.
func Reasons() []string {
	return []string{ReasonLeft, ReasonTimeout, ReasonNode, ReasonKicked, ReasonClosed, ReasonMoved}
}

// CloseCodes returns the Close constants.
func CloseCodes() []int {
	return []int{
		CloseBroken, CloseNotText, CloseNotUTF8, ClosePolicy, CloseTooBig, CloseRestart,
		CloseReplaced, CloseUnauthorized, CloseTooSlow, CloseTooMany,
	}
}
