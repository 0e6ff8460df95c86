package protocol

import "testing"

func BenchmarkDecodeRequest(b *testing.B) {
	frames := []struct{ name, frame string }{
		{"join", `{"id":1,"action":"join","room":"42"}`},
		{"seat", `{"id":1,"action":"join","room":"42","seat":2}`},
		{"spaced", `{"id": 1, "action": "join", "room": "42"}`},
		{"refused", `{"id":1,"action":"join","Room":"42"}`},
	}
	for _, f := range frames {
		b.Run(f.name, func(b *testing.B) {
			frame := []byte(f.frame)
			b.ReportAllocs()
			for b.Loop() {
				DecodeRequest(frame)
			}
		})
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	e := &Event{Event: EventChanges, Room: "42", Epoch: "5f1c9a7e", Version: 20, From: 19,
		Changes: []Change{{ChangeJoin, "赵六", 0}}}
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendEvent(buf[:0], e)
	}
}

func BenchmarkDecodeFrame(b *testing.B) {
	data := AppendEvent(nil, &Event{Event: EventChanges, Room: "42", Epoch: "5f1c9a7e", Version: 20, From: 19,
		Changes: []Change{{ChangeJoin, "赵六", 0}}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeFrame(data); err != nil {
			b.Fatal(err)
		}
	}
}
