package protocol_test

import (
	"fmt"

	"roomd/transport/protocol"
)

// A server decodes each frame, and answers those that it cannot use with an error.
func ExampleDecodeRequest() {
	for _, frame := range []string{
		`{"id":1,"action":"join","room":"42"}`,
		`{"id":2,"action":"join","Room":"42"}`,
	} {
		req, err := protocol.DecodeRequest([]byte(frame))
		if err != nil {
			fmt.Printf("%s\n", protocol.AppendReply(nil, err.Reply()))
			continue
		}
		fmt.Println("request", req.ID, req.Action, req.Room)
	}
	// Output:
	// request 1 join 42
	// {"id":2,"error":{"code":"bad_request","message":"unknown field \"Room\": names are in lower case, \"room\"","retry":false}}
}

// A client tells replies from events by their type.
func ExampleDecodeFrame() {
	for _, data := range []string{
		`{"id":1,"error":{"code":"room_full","message":"room 42 is full","retry":true}}`,
		`{"event":"changes","room":"42","epoch":"e","version":20,"from":19,"changes":[{"type":"join","user":"赵六","seat":0}]}`,
	} {
		frame, err := protocol.DecodeFrame([]byte(data))
		if err != nil {
			fmt.Println(err)
			return
		}
		switch f := frame.(type) {
		case *protocol.Reply:
			fmt.Println("reply", *f.ID, f.Error)
		case *protocol.Event:
			for _, c := range f.Changes {
				fmt.Println("room", f.Room, "is at", f.Version, "by a", c.Type, "of", c.User, "on seat", c.Seat)
			}
		}
	}
	// Output:
	// reply 1 room_full: room 42 is full
	// room 42 is at 20 by a join of 赵六 on seat 0
}
