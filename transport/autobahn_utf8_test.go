package transport

import (
	"fmt"
	"strings"
	"testing"
)

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
	for group, texts := range utf8Texts() {
		for i, content := range texts {
			content, valid := strings.CutPrefix(content, "+")
			want := "close 1007"
			if valid {
				want = "bad_request"
			}
			cases = append(cases, frameCase{fmt.Sprintf("6.%d.%d", group+5, i+1), together(text(content)), want})
		}
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

// utf8Texts are the texts of 6.5 to 6.23, those that are valid UTF-8 behind a plus sign.
func utf8Texts() [][]string {
	var prefixes []string
	for i := range len(greek) {
		prefix := greek[:i+1]
		if strings.ToValidUTF8(prefix, "") == prefix {
			prefix = "+" + prefix
		}
		prefixes = append(prefixes, prefix)
	}
	run := func(from, to byte, between string) (s string) {
		for c := from; c < to; c++ {
			s += string([]byte{c}) + between
		}
		return s
	}
	missing := []string{
		"\xc0", "\xe0\x80", "\xf0\x80\x80", "\xf8\x80\x80\x80", "\xfc\x80\x80\x80\x80",
		"\xdf", "\xef\xbf", "\xf7\xbf\xbf", "\xfb\xbf\xbf\xbf", "\xfd\xbf\xbf\xbf\xbf",
	}
	nonCharacters := []string{"+\ufffe", "+\uffff"}
	for plane := rune(0x10000); plane <= 0x100000; plane += 0x10000 {
		nonCharacters = append(nonCharacters, "+"+string(plane+0xfffe), "+"+string(plane+0xffff))
	}
	return [][]string{
		{"+hello$world", "+hello¢world", "+hello€world", "+hello\U00024b62world", "+" + greek},
		prefixes,
		{"+\x00", "+\u0080", "+\u0800", "+\U00010000"},
		{"\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80"},
		{"+\x7f", "+\u07ff", "+\uffff", "+\U0010ffff"},
		{"\xf7\xbf\xbf\xbf", "\xfb\xbf\xbf\xbf\xbf", "\xfd\xbf\xbf\xbf\xbf\xbf"},
		{"+\ud7ff", "+\ue000", "+\ufffd", "+\U0010ffff", highest},
		{"\x80", "\xbf", "\x80\xbf", "\x80\xbf\x80", "\x80\xbf\x80\xbf", "\x80\xbf\x80\xbf\x80", "\x80\xbf\x80\xbf\x80\xbf", run(0x80, 0xbf, "")},
		{run(0xc0, 0xdf, " "), run(0xe0, 0xef, " "), run(0xf0, 0xf7, " "), run(0xf8, 0xfb, " "), run(0xfc, 0xfd, " ")},
		missing,
		{strings.Join(missing, "")},
		{"\xfe", "\xff", "\xfe\xfe\xff\xff"},
		{"\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xf8\x80\x80\x80\xaf", "\xfc\x80\x80\x80\x80\xaf"},
		{"\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xf8\x87\xbf\xbf\xbf", "\xfc\x83\xbf\xbf\xbf\xbf"},
		{"\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf8\x80\x80\x80\x80", "\xfc\x80\x80\x80\x80\x80"},
		{"\xed\xa0\x80", "\xed\xad\xbf", "\xed\xae\x80", "\xed\xaf\xbf", "\xed\xb0\x80", "\xed\xbe\x80", "\xed\xbf\xbf"},
		{
			"\xed\xa0\x80\xed\xb0\x80", "\xed\xa0\x80\xed\xbf\xbf", "\xed\xad\xbf\xed\xb0\x80", "\xed\xad\xbf\xed\xbf\xbf",
			"\xed\xae\x80\xed\xb0\x80", "\xed\xae\x80\xed\xbf\xbf", "\xed\xaf\xbf\xed\xb0\x80", "\xed\xaf\xbf\xed\xbf\xbf",
		},
		nonCharacters,
		{"+\ufff9", "+\ufffa", "+\ufffb", "+\ufffc", "+\ufffd", "+\ufffe", "+\uffff"},
	}
}
