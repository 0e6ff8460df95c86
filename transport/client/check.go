package client

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"roomd/transport/protocol"
)

// part is a field of a request that a program chooses.
type part struct{ field, text string }

func partsOf(req *protocol.Request) [7]part {
	return [...]part{
		{"room", req.Room}, {"token", req.Token}, {"user", req.User}, {"text", req.Text},
		{"data", string(req.Data)}, {"to", strings.Join(req.To, ",")}, {"epoch", req.Epoch},
	}
}

// checkText returns an error if the request would be written with other text than it has.
func checkText(req *protocol.Request) error {
	for _, p := range partsOf(req) {
		if !utf8.ValidString(p.text) {
			return errors.New(p.field + ": not valid UTF-8")
		}
	}
	return nil
}

// longest returns which field makes a request too long.
func longest(req *protocol.Request) string {
	parts := partsOf(req)
	slices.SortStableFunc(parts[:], func(a, b part) int { return len(b.text) - len(a.text) })
	return parts[0].field
}
