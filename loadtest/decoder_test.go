package loadtest

import (
	"reflect"
	"testing"

	"roomd/room"
	"roomd/transport/protocol"
)

// What is decoded once says the same as what is decoded each time, also where data look like a list.
func TestDecoder(t *testing.T) {
	one, two, seat := int64(1), int64(2), 3
	users := []protocol.Seated{{User: "张三", Seat: 3, Data: `{"a":1,"users":[{"user":"x"}]}`}, {User: `,"users":[`, Seat: 4, Ready: true, Away: true}}
	reply := func(id *int64, users []protocol.Seated) []byte {
		return protocol.AppendReply(nil, &protocol.Reply{ID: id, Room: "r", Epoch: "e", Version: 7, Seat: &seat, State: protocol.State{Count: len(users),
			Settings: &room.Settings{Capacity: 9}, Data: `{"x":0,"users":[1]}`, Users: users}})
	}
	frames := [][]byte{
		reply(&one, users), reply(&two, users), reply(&one, users[1:]), reply(&two, users[1:]), reply(&one, []protocol.Seated{}), reply(&two, nil),
		[]byte(`{"event":"changes","room":"r","epoch":"e","version":8,"from":7,"changes":[{"type":"join","user":"a","seat":1}]}`),
		[]byte(`{"event":"snapshot","room":"r","epoch":"e","version":8,"count":1,"users":[{"user":"a","seat":1}]}`),
		[]byte(`{"id":1,"error":{"code":"room_full","message":"full"}}`),
		[]byte(`{"id":1,"count":1,"users":[{"user":"a"}`), []byte(`{"event":1}`), []byte(`{}`),
	}
	d := new(decoder)
	for range 2 {
		for _, frame := range frames {
			want, refused := decode(frame)
			got, err := d.decode(frame)
			if !reflect.DeepEqual(got, want) || (err == nil) != (refused == nil) {
				t.Errorf("%s\nis %+v, %v\nwant %+v, %v", frame, got, err, want, refused)
			}
		}
	}
	first, _ := d.decode(frames[2])
	second, _ := d.decode(frames[3])
	if &first.list.Users[0] != &second.list.Users[0] {
		t.Error("one list was decoded twice")
	}
}

// A decoder forgets.
func TestDecoder_Bounded(t *testing.T) {
	d := new(decoder)
	for i := range 20 {
		text := make([]byte, maxKept/4)
		for j := range text {
			text[j] = byte('a' + i)
		}
		if _, err := d.decode(append(append([]byte(`{"event":"`), text...), `"}`...)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(d.kept) + len(d.old); n < 2 || n > 12 {
		t.Errorf("%d frames of a quarter of the limit are kept", n)
	}
}
