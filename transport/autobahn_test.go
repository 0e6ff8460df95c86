package transport

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport/internal/session"
	"roomd/transport/internal/ws"
	"roomd/transport/internal/ws/wstest"
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

// What the texts of the suite's section 6 have in common.
const (
	greek   = "κ\u1f79σμε"       // 11 bytes
	highest = "\xf4\x90\x80\x80" // one more than the highest code point
)

// Section 6: UTF-8. Text that is valid gets an error reply, because it is no request.
func TestAutobahn_UTF8(t *testing.T) {
	const valid = "Hello-µ@ßöäüàá-UTF-8!!"
	const surrogate = greek + "\xed\xa0\x80" + "edited"
	whole := greek + highest + "edited"
	cases := []frameCase{
		{"6.1.1", together(text("")), "bad_request"},
		{"6.1.2", together(first(""), more(""), last("")), "bad_request"},
		{"6.1.3", together(first(""), more(usersOf(1)), last("")), "1"},
		{"6.2.1", together(text(valid)), "bad_request"},
		{"6.2.2", together(first(valid[:12]), last(valid[12:])), "bad_request"},
		{"6.2.3", together(byteByByte(valid)...), "bad_request"},
		{"6.2.4", together(byteByByte(greek)...), "bad_request"},
		{"6.3.1", together(text(surrogate)), "close 1007"},
		{"6.3.2", together(byteByByte(surrogate)...), "close 1007"},
		// The rest of the message is never sent: the server must not wait for it.
		{"6.4.1", []string{first(greek), more(highest)}, "close 1007"},
		{"6.4.2", []string{first(whole[:12]), more(whole[12:13])}, "close 1007"},
		{"6.4.3", []string{text(whole)[:6+len(greek)], text(whole)[6+len(greek) : 6+len(greek)+4]}, "close 1007"},
		{"6.4.4", []string{text(whole)[:6+12], text(whole)[6+12 : 6+13]}, "close 1007"},
	}
	for i, content := range utf8Texts { // of 6.5 to 6.23
		want := map[bool]string{true: "bad_request", false: "close 1007"}[utf8.ValidString(content)]
		cases = append(cases, frameCase{fmt.Sprint("6.", i), together(text(content)), want})
	}
	runCases(t, cases)
}

// byteByByte returns a message in fragments of one byte.
func byteByByte(content string) (frames []string) {
	frames = append(frames, first(content[:1]))
	for i := 1; i < len(content)-1; i++ {
		frames = append(frames, more(content[i:i+1]))
	}
	return append(frames, last(content[len(content)-1:]))
}

// utf8Texts have the first, the last and the longest of what is UTF-8, and what is not for one reason each.
var utf8Texts = []string{
	greek, greek[:2], greek[:3], greek[:len(greek)-1], "\x00", "\x7f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufffd", "\ufffe",
	"\uffff", "\U00010000", "\U0001fffe", "\U0010ffff", highest, "\xf8\x88\x80\x80\x80", "\xfd\xbf\xbf\xbf\xbf\xbf", "\x80", "\xbf\x80",
	"\xc0 \xc1 \xdf ", "\xe0 ", "\xf0 ", "\xc0", "\xe0\x80", "\xf0\x80\x80", "\xdf", "\xef\xbf", "\xf7\xbf\xbf", "\xfe", "\xff", "\xfe\xfe\xff\xff",
	"\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xc0\x80", "\xed\xa0\x80", "\xed\xbf\xbf",
	"\xed\xa0\x80\xed\xb0\x80",
}

func TestFlood_Fragments(t *testing.T) {
	runCases(t, []frameCase{
		{"as many as allowed", together(wstest.Fragments(usersOf(1), ws.MaxFragments)), "1"},
		{"one more", together(wstest.Fragments(usersOf(1), ws.MaxFragments+1)), "close 1008"},
		{"never the last", together(first(""), strings.Repeat(more(""), 1000)), "close 1008"},
		{"never the last, one byte each", together(first("x"), strings.Repeat(more("x"), 1000)), "close 1008"},
		{"with pings between them", together(first(""), strings.Repeat(more("")+pong(""), session.NoopBurst)), "close 1008"},
	})
}

// Whoever sends frames that ask for nothing is cut off. That takes no time here, so the rate
// gives nobody a further frame.
func TestFlood_CutOff(t *testing.T) {
	for name, unit := range map[string]string{
		"pongs":     pong("x"),
		"fragments": first("{") + last("}"),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, sizedRooms{}, Options{Rate: -1})
			c := s.connectRawAs(t, "a")
			go c.write(strings.Repeat(unit, session.NoopBurst), text(usersOf(7)), strings.Repeat(unit, 100))
			got := strings.TrimSpace(strings.ReplaceAll(c.readAll(), "bad_request ", ""))
			want := fmt.Sprint("7 close ", protocol.CloseTooMany)
			redistest.ErrorIf(t, got != want, "%s: got %q, want %q", name, got, want)
		})
	}
}

// A client may always send spare frames at the rate, and after a pause all at once.
func TestFlood_AtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{PingInterval: time.Hour})
		c := s.connectRawAs(t, "a")
		for range 10 * 60 {
			c.write(strings.Repeat(pong(""), session.NoopRate))
			time.Sleep(time.Second)
		}
		time.Sleep((session.NoopBurst/session.NoopRate + 1) * time.Second)
		go c.write(strings.Repeat(pong(""), session.NoopBurst), text(usersOf(1)), closing(1000, ""))
		redistest.Equal(t, "got", c.readAll(), "1 close 1000")
	})
}

// A message that never ends ends the connection, whatever comes between its fragments.
func TestFrames_MessageMustEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		c := s.connectRawAs(t, "a")
		start := time.Now()
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() {
			c.write(first("{"))
			for range 30 {
				c.write(pong(""))
				time.Sleep(10 * time.Second)
			}
			_ = c.raw.Close()
		})
		c.readAll()
		took := time.Since(start)
		redistest.ErrorIf(t, took > 3*DefaultPingInterval, "the connection lasted %v", took)
	})
}
