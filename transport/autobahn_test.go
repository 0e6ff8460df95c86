package transport

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

// Section 1: sizes. Unlike the suite's echo server, this one refuses text that is no request,
// binary messages, and messages longer than protocol.MaxFrame.
func TestAutobahn_Framing(t *testing.T) {
	tooBig := fmt.Sprint("too_large close ", protocol.CloseTooBig)
	cases := []frameCase{
		{"1.1.1", together(text("")), "bad_request"},
		{"1.1.2", together(text(padded(1, 125))), "1"},
		{"1.1.3", together(text(padded(1, 126))), "1"},
		{"1.1.4", together(text(padded(1, 127))), "1"},
		{"1.1.5", together(text(padded(1, 128))), "1"},
		{"1.1.6", together(text(padded(1, 65535))), tooBig},
		{"1.1.7", together(text(padded(1, 65536))), tooBig},
		{"1.1.8", chops(997, text(padded(1, 65536))), tooBig},
		{"1.1 longest", together(text(padded(1, protocol.MaxFrame))), "1"},
		{"1.1 longest, chopped", chops(997, text(padded(1, protocol.MaxFrame))), "1"},
		{"1.1 too long by one", together(text(padded(1, protocol.MaxFrame+1))), tooBig},
		{"1.1 too long by one in fragments", together(first(padded(1, protocol.MaxFrame)), last("x")), tooBig},
		{"1.1 without a mask", []string{"\x81\x02{}"}, "close 1002"},
		{"1.1 longer than a length can be", []string{"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff1234"}, "close 1002"},
		{"1.1 as long as a length can be", []string{"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff1234"}, tooBig},
	}
	for i, size := range []int{0, 125, 126, 127, 128, 65535, 65536} {
		cases = append(cases, frameCase{fmt.Sprint("1.2.", i+1), together(binaryMessage(strings.Repeat("\xfe", size))), "close 1003"})
	}
	cases = append(cases, frameCase{"1.2.8", chops(997, binaryMessage(strings.Repeat("\xfe", 65536))), "close 1003"})
	runCases(t, cases)
}

// Section 2: pings and pongs.
func TestAutobahn_Pings(t *testing.T) {
	long := strings.Repeat("\xfe", 125)
	var ten, tenPongs []string
	for i := range 10 {
		ten, tenPongs = append(ten, ping(fmt.Sprint("payload-", i))), append(tenPongs, fmt.Sprint("pongpayload-", i))
	}
	runCases(t, []frameCase{
		{"2.1", together(ping("")), "pong"},
		{"2.2", together(ping("hello")), "ponghello"},
		{"2.3", together(ping("\x00\xff\xfe\xfd\xfc\xfb\x00\xff")), "pong\x00\xff\xfe\xfd\xfc\xfb\x00\xff"},
		{"2.4", together(ping(long)), "pong" + long},
		{"2.5", together(ping(long + "\xfe")), "close 1002"},
		{"2.6", octets(ping(long)), "pong" + long},
		{"2.7", together(pong("")), ""},
		{"2.8", together(pong("unsolicited")), ""},
		{"2.9", together(pong("unsolicited"), ping("ping")), "pongping"},
		{"2.10", together(ten...), strings.Join(tenPongs, " ")},
		{"2.11", octets(ten...), strings.Join(tenPongs, " ")},
	})
}

// Section 3: reserved bits. What came before is answered.
func TestAutobahn_ReservedBits(t *testing.T) {
	const rsv = 1 << 4
	bad := func(bits byte) string { return rawFrame(ws.Final|bits*rsv|websocket.TextMessage, usersOf(2)) }
	runCases(t, []frameCase{
		{"3.1", together(bad(1)), "close 1002"},
		{"3.2", together(text(usersOf(1)), bad(2), ping("")), "1 close 1002"},
		{"3.3", []string{text(usersOf(1)), bad(3), ping("")}, "1 close 1002"},
		{"3.4", octets(text(usersOf(1)), bad(4), ping("")), "1 close 1002"},
		{"3.5", together(rawFrame(ws.Final|5*rsv|websocket.BinaryMessage, "\x00\xff")), "close 1002"},
		{"3.6", together(rawFrame(ws.Final|6*rsv|websocket.PingMessage, "hello")), "close 1002"},
		{"3.7", together(rawFrame(ws.Final|7*rsv|websocket.CloseMessage, "\x03\xe8")), "close 1002"},
	})
}

// Section 4: opcodes without a meaning.
func TestAutobahn_Opcodes(t *testing.T) {
	var cases []frameCase
	for group, opcodes := range [][]byte{{3, 4, 5, 6, 7}, {11, 12, 13, 14, 15}} {
		op := func(i int, content string) string { return rawFrame(ws.Final|opcodes[i-1], content) }
		id := fmt.Sprintf("4.%d.", group+1)
		cases = append(cases,
			frameCase{id + "1", together(op(1, "")), "close 1002"},
			frameCase{id + "2", together(op(2, "payload")), "close 1002"},
			frameCase{id + "3", together(text(usersOf(1)), op(3, ""), ping("")), "1 close 1002"},
			frameCase{id + "4", together(text(usersOf(1)), op(4, "payload"), ping("")), "1 close 1002"},
			frameCase{id + "5", octets(text(usersOf(1)), op(5, "payload"), ping("")), "1 close 1002"},
		)
	}
	runCases(t, cases)
}

// Section 5: fragments.
func TestAutobahn_Fragments(t *testing.T) {
	a, b := usersOf(1)[:15], usersOf(1)[15:]
	pinged := []string{first(a), ping("ping"), last(b)}
	threeTimes := func(s func(...string) []string, parts ...string) []string {
		return s(append(append(append([]string{}, parts...), text("fragment"), first(a)), last(b))...)
	}
	five := []string{
		first(usersOf(1)[:5]), more(usersOf(1)[5:9]), ping("1"), more(""), more(usersOf(1)[9:20]), ping("2"), last(usersOf(1)[20:]),
	}
	runCases(t, []frameCase{
		{"5.1", together(rawFrame(websocket.PingMessage, "fragment1"), last("fragment2")), "close 1002"},
		{"5.2", together(rawFrame(websocket.PongMessage, "fragment1"), last("fragment2")), "close 1002"},
		{"5.3", together(first(a), last(b)), "1"},
		{"5.4", []string{first(a), last(b)}, "1"},
		{"5.5", octets(first(a), last(b)), "1"},
		{"5.6", together(pinged...), "pongping 1"},
		{"5.7", pinged, "pongping 1"},
		{"5.8", octets(pinged...), "pongping 1"},
		{"5.9", together(last("fragment1"), text(usersOf(1))), "close 1002"},
		{"5.10", []string{last("fragment1"), text(usersOf(1))}, "close 1002"},
		{"5.11", octets(last("fragment1"), text(usersOf(1))), "close 1002"},
		{"5.12", together(more("fragment1"), text(usersOf(1))), "close 1002"},
		{"5.13", []string{more("fragment1"), text(usersOf(1))}, "close 1002"},
		{"5.14", octets(more("fragment1"), text(usersOf(1))), "close 1002"},
		{"5.15", together(first(a), last(b), more("fragment3"), text("fragment4")), "1 close 1002"},
		{"5.16", threeTimes(together, more("fragment1")), "close 1002"},
		{"5.17", threeTimes(together, last("fragment1")), "close 1002"},
		{"5.18", together(first(a), rawFrame(ws.Final|websocket.TextMessage, b)), "close 1002"},
		{"5.19", together(five...), "pong1 pong2 1"},
		{"5.20", five, "pong1 pong2 1"},
		{"5 a close frame in two fragments", together(rawFrame(websocket.CloseMessage, "\x03"), last("\xe8")), "close 1002"},
		{"5 a binary message after a fragment", together(first(a), binaryMessage(b)), "close 1002"},
	})
}

// Section 7: the closing handshake. The server answers with the client's code.
func TestAutobahn_Close(t *testing.T) {
	raw := func(content string) string { return rawFrame(ws.Final|websocket.CloseMessage, content) }
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
