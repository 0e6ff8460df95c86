package protocol

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRetryable(t *testing.T) {
	all := []*Error{ErrBadRequest, ErrUnknownAction, ErrUnauthorized, ErrForbidden, ErrRoomFull, ErrClosed, ErrBanned,
		ErrConflict, ErrSeatTaken, ErrDuplicateUser, ErrNotMember, ErrRateLimited, ErrTooLarge, ErrBusy,
		ErrUnavailable, ErrUnknown, ErrInternal}
	var retry []string
	for i, code := range Codes() {
		if all[i].Code != code {
			t.Errorf("an error with the code %s, want %s", all[i].Code, code)
		}
		if all[i].Retry {
			retry = append(retry, code)
		}
	}
	if got := fmt.Sprint(retry); got != "[rate_limited busy unavailable]" || NewError("of a later version", "").Retry {
		t.Errorf("retryable are %s", got)
	}
}

func TestErrorIsByCode(t *testing.T) {
	full := NewError(CodeRoomFull, "room %s is full: %d of %d seats taken", "42", 4, 4)
	wrapped := fmt.Errorf("joining: %w", full)
	if !errors.Is(wrapped, ErrRoomFull) || errors.Is(wrapped, ErrSeatTaken) {
		t.Error("errors.Is does not go by code")
	}
	if errors.Is(full, (*Error)(nil)) || errors.Is(full, errors.New("room_full")) {
		t.Error("errors.Is matches an error that is not an Error")
	}
	if got, want := full.Error(), "room_full: room 42 is full: 4 of 4 seats taken"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ErrBusy.Error(); got != "busy" {
		t.Errorf("got %q, want the code alone", got)
	}
	if got := NewError(CodeInternal, "a%sb", "\xff").Message; got != "a\uFFFDb" {
		t.Errorf("got %q, want the bad byte replaced", got)
	}
}

// A message that repeats what a client has sent is cut.
func TestMessagesAreShort(t *testing.T) {
	for pad := range 4 {
		message := NewError(CodeBadRequest, "%s", strings.Repeat("x", pad)+strings.Repeat("张", 10_000)).Message
		if len(message) > maxMessage || len(message) < maxMessage-4 || !strings.HasSuffix(message, "张…") {
			t.Errorf("%d bytes: %s", len(message), message)
		}
	}
	for _, n := range []int{maxMessage - 1, maxMessage} {
		if message := NewError(CodeBadRequest, "%s", strings.Repeat("x", n)).Message; len(message) != n {
			t.Errorf("%d bytes became %d", n, len(message))
		}
	}
}
