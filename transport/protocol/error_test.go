package protocol

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRetryable(t *testing.T) {
	tests := []struct {
		err   *Error
		code  string
		retry bool
	}{
		{ErrBadRequest, "bad_request", false},
		{ErrUnknownAction, "unknown_action", false},
		{ErrUnauthorized, "unauthorized", false},
		{ErrForbidden, "forbidden", false},
		{ErrRoomFull, "room_full", false},
		{ErrClosed, "closed", false},
		{ErrBanned, "banned", false},
		{ErrConflict, "conflict", false},
		{ErrRateLimited, "rate_limited", true},
		{ErrTooLarge, "too_large", false},
		{ErrSeatTaken, "seat_taken", false},
		{ErrDuplicateUser, "duplicate_user", false},
		{ErrNotMember, "not_member", false},
		{ErrBusy, "busy", true},
		{ErrUnavailable, "unavailable", true},
		{ErrUnknown, "unknown", false},
		{ErrInternal, "internal", false},
		{NewError("of a later version", ""), "of a later version", false},
	}
	for _, tt := range tests {
		if tt.err.Code != tt.code || tt.err.Retry != tt.retry || retryable(tt.code) != tt.retry {
			t.Errorf("%s: got %+v, retryable %t, want %t", tt.code, *tt.err, retryable(tt.code), tt.retry)
		}
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
