package transport

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/transport/internal/frames"
)

// Section 7: the closing handshake. The server answers with the client's code.
func TestAutobahn_Close(t *testing.T) {
	raw := func(content string) string { return rawFrame(frames.Final|websocket.CloseMessage, content) }
	normal := closing(1000, "")
	cases := []frameCase{
		{"7.1.1", together(text(usersOf(1)), normal), "1 close 1000"},
		{"7.1.2", together(normal, normal), "close 1000"},
		{"7.1.3", together(normal, ping("")), "close 1000"},
		{"7.1.4", together(normal, text(usersOf(1))), "close 1000"},
		{"7.1.5", together(first(usersOf(1)[:15]), normal, last(usersOf(1)[15:])), "close 1000"},
		// The suite's echo server takes a message of 256 KiB.
		{"7.1.6", together(text(strings.Repeat("BAsd7&jh23", 26215)), text(usersOf(1)), normal, ping("")), "too_large close 1009"},
		{"7.3.1", together(raw("")), "close"},
		{"7.3.2", together(raw("a")), "close 1002"},
		{"7.3.3", together(normal), "close 1000"},
		{"7.3.4", together(closing(1000, "Hello World!")), "close 1000"},
		{"7.3.5", together(closing(1000, strings.Repeat("*", 123))), "close 1000"},
		{"7.3.6", together(closing(1000, strings.Repeat("*", 124))), "close 1002"},
		{"7.5.1", together(closing(1000, greek+"\xed\xa0\x80edited")), "close 1007"},
		{"7.13.1", together(closing(5000, "")), "close 1002"},
		{"7.13.2", together(raw(string(binary.BigEndian.AppendUint32(nil, 65536)))), "close 1002"},
	}
	// 1012 to 1014 were assigned after the suite was written.
	for i, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999, 1012, 1013, 1014} {
		cases = append(cases, frameCase{fmt.Sprint("7.7.", i+1), together(closing(code, "")), fmt.Sprint("close ", code)})
	}
	for i, code := range []int{0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 1015, 65535} {
		cases = append(cases, frameCase{fmt.Sprint("7.9.", i+1), together(closing(code, "")), "close 1002"})
	}
	runCases(t, cases)
}
