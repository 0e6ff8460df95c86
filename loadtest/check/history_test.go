package check

import (
	"slices"
	"testing"
)

// A connection is believed up to the last operation that was answered there, however late events of it have come, and a reply
// on a later connection does not count.
func TestHistory_Believed(t *testing.T) {
	h := &History{
		Ops: []*Op{
			{Process: "a", Call: 10, Return: 20, Outcome: Done}, {Process: "b", Call: 15, Return: 16, Outcome: Done},
			{Process: "a", Call: 40, Return: 0, Outcome: Unknown}, {Process: "a", Call: 50, Return: 130, Outcome: Done}, {Process: "a", Call: 140, Return: 150, Outcome: Refused},
		},
		Conns: []Conn{{User: "a", From: 5, Last: 90}, {User: "b", From: 3, Last: 14}, {User: "a", From: 100, Last: 160}},
	}
	if got, want := h.believed(), []interval{{10, 20, h.Ops[0]}, {3, 3, nil}, {140, 150, h.Ops[4]}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
