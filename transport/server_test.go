package transport

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

func TestError_Codes(t *testing.T) {
	for err, code := range map[error]string{
		&room.InvalidError{Field: "user"}: protocol.CodeBadRequest,
		room.ErrFull:                      protocol.CodeRoomFull,
		room.ErrSeatTaken:                 protocol.CodeSeatTaken,
		room.ErrNotMember:                 protocol.CodeNotMember,
		room.ErrForbidden:                 protocol.CodeForbidden,
		room.ErrDuplicate:                 protocol.CodeDuplicateUser,
		room.ErrBusy:                      protocol.CodeBusy,
		room.ErrUnavailable:               protocol.CodeUnavailable,
		room.ErrUnknown:                   protocol.CodeUnknown,
		room.ErrClosed:                    protocol.CodeUnavailable,
		errors.New("dial 10.0.0.1"):       protocol.CodeInternal,
	} {
		got := ErrorOf(fmt.Errorf("wrapped: %w", err))
		redistest.ErrorIf(t, got.Code != code, "%v became %v, want %s", err, got, code)
		redistest.ErrorIf(t, strings.Contains(got.Message, "10.0.0.1"), "%v shows clients where Redis is", got)
	}
}

func TestOptions_Bad(t *testing.T) {
	s := start(t, room.Rules{}, Options{})
	for name, opts := range map[string]Options{
		"MaxConnections": {MaxConnections: -1}, "PingInterval": {PingInterval: -1}, "WriteTimeout": {WriteTimeout: -1},
		"HandshakeTimeout": {HandshakeTimeout: -1}, "LeaveTimeout": {LeaveTimeout: -1},
		"MaxRooms": {MaxRooms: -1}, "AuthTimeout": {AuthTimeout: -1}, "Burst": {Burst: -1}, "Burst must": {Burst: maxRate + 1},
		"Rate": {Rate: maxRate + 1}, "MaxFrame": {MaxFrame: -1}, "MaxFrame must": {MaxFrame: minFrame - 1}, "from 1024": {MaxFrame: maxFrame + 1},
		"TrustProxy": {TrustProxy: []netip.Prefix{{}}}, "TrustProxy must": {TrustProxy: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
		"not \"https://game.example/\"": {AllowOrigins: []string{"https://game.example/"}},
		"not \"game.example\"":          {AllowOrigins: []string{"https://game.example", "game.example"}},
		"not \"\"":                      {AllowOrigins: []string{""}},
	} {
		_, err := New(s.rooms, opts)
		redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), name), "%s: %v", name, err)
	}
	_, err := New(nil, Options{})
	redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), "rooms"), "rooms: %v", err)
}
