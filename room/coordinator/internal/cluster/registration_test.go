package cluster

import (
	"context"
	"errors"
	"io"
	"testing"
)

// Any number rely on the records of one room, and nobody deletes them meanwhile. Who waits for records to be
// deleted gives up with its context.
func TestRegistration_Records(t *testing.T) {
	n := &Node{registrations: registrations{users: make(map[string]int), gone: make(map[string]chan struct{})}}
	all := &n.registrations
	first, second := n.Registration("A"), n.Registration("A")
	if err := errors.Join(first.use(t.Context()), second.use(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Registration{first, second} {
		if _, free := all.beginDelete("A"); free {
			t.Error("records are deleted that somebody relies on")
		}
		r.Close()
		r.Close()
	}
	deleted, free := all.beginDelete("A")
	if !free {
		t.Fatal("nobody relies on them")
	}
	if _, free := all.beginDelete("A"); free {
		t.Error("deleted twice at once")
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	if err := first.use(ended); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("use: %v", err)
	}
	waits := make(chan error)
	go func() { waits <- first.use(t.Context()) }()
	deleted()
	if err := <-waits; err != nil {
		t.Error(err)
	}
	first.Close()
	if len(all.users) != 0 || len(all.gone) != 0 {
		t.Errorf("%v and %v are left", all.users, all.gone)
	}
}
