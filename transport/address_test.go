package transport

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/internal/pending"
)

func TestAddress_OfClient(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.7/32")}
	for _, tt := range []struct {
		about, peer string
		header      []string
		want        string
	}{
		{"a client of its own", "203.0.113.5:4711", nil, "203.0.113.5"},
		{"a client that lies", "203.0.113.5:4711", []string{"198.51.100.1"}, "203.0.113.5"},
		{"a client that claims to be a proxy", "203.0.113.5:4711", []string{"198.51.100.1, 10.0.0.1"}, "203.0.113.5"},
		{"beside the trusted one", "192.0.2.8:1", []string{"198.51.100.1"}, "192.0.2.8"},
		{"a proxy", "10.1.2.3:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a proxy that is one address", "192.0.2.7:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a proxy without a header", "10.1.2.3:80", nil, "10.1.2.3"},
		{"a proxy with an empty header", "10.1.2.3:80", []string{"", " , ,"}, "10.1.2.3"},
		{"two proxies", "10.1.2.3:80", []string{"198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"two proxies, two lines", "10.1.2.3:80", []string{"198.51.100.1", "10.9.9.9"}, "198.51.100.1"},
		{"what the client made up stands to the left", "10.1.2.3:80", []string{"127.0.0.1, 8.8.8.8, 198.51.100.1"}, "198.51.100.1"},
		{"made up in a line of its own", "10.1.2.3:80", []string{"127.0.0.1", "198.51.100.1"}, "198.51.100.1"},
		{"made up to look like a chain of ours", "10.1.2.3:80", []string{"6.6.6.6, 10.0.0.1, 10.0.0.2", "198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"made up, and no address", "10.1.2.3:80", []string{"' or 1=1, \x00, 198.51.100.1"}, "198.51.100.1"},
		{"nothing but proxies", "10.1.2.3:80", []string{"10.0.0.1, 10.0.0.2"}, "10.0.0.1"},
		{"a proxy sends no address", "10.1.2.3:80", []string{"198.51.100.1, unknown"}, "10.1.2.3"},
		{"a proxy's proxy sends no address", "10.1.2.3:80", []string{"198.51.100.1, unix:, 10.9.9.9"}, "10.9.9.9"},
		{"a number is no address", "10.1.2.3:80", []string{"3325256709"}, "10.1.2.3"},
		{"leading zeros", "10.1.2.3:80", []string{"198.51.100.010"}, "10.1.2.3"},
		{"with a port", "10.1.2.3:80", []string{"198.51.100.1:5555"}, "198.51.100.1"},
		{"spaces and empty entries", "10.1.2.3:80", []string{"\t198.51.100.1 ,, 10.0.0.1 , "}, "198.51.100.1"},
		{"IPv6", "[fd00::1]:80", []string{"2001:db8::5"}, "2001:db8::5"},
		{"IPv6 in brackets", "[fd00::1]:80", []string{"[2001:db8::5]"}, "2001:db8::5"},
		{"IPv6 with a port", "[fd00::1]:80", []string{"[2001:db8::5]:1234"}, "2001:db8::5"},
		{"half a bracket", "[fd00::1]:80", []string{"2001:db8::5]"}, "fd00::1"},
		{"IPv4 in IPv6 as proxy", "[::ffff:10.1.2.3]:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"IPv4 in IPv6 as client", "10.1.2.3:80", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"IPv4 in IPv6 as second proxy", "10.1.2.3:80", []string{"198.51.100.1, ::ffff:10.0.0.9"}, "198.51.100.1"},
		{"a zone", "[fe80::1%eth0]:80", nil, "fe80::1"},
		{"a zone in the header", "10.1.2.3:80", []string{"fe80::1%" + strings.Repeat("x", 4000)}, "fe80::1"},
		{"a Unix socket", "@", []string{"198.51.100.1"}, "invalid IP"},
		{"no address at all", "", nil, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{forwardedFor: tt.header}}
		got := clientAddress(r, trusted)
		redistest.ErrorIf(t, got.String() != tt.want, "%s: got %v, want %v", tt.about, got, tt.want)
	}
	r := &http.Request{RemoteAddr: "10.1.2.3:80", Header: http.Header{forwardedFor: {"198.51.100.1"}, "Forwarded": {"for=198.51.100.2"}}}
	got := clientAddress(r, nil)
	redistest.ErrorIf(t, got.String() != "10.1.2.3", "nobody is trusted: got %v", got)
	redistest.Equal(t, "logs show", remoteOf(r, clientAddress(r, trusted)), "198.51.100.1")
	redistest.Equal(t, "logs show", remoteOf(r, clientAddress(r, nil)), "10.1.2.3:80")
}

func TestAddress_Network(t *testing.T) {
	for address, want := range map[string]string{
		"198.51.100.1":                 "198.51.100.1/32",
		"::ffff:198.51.100.1":          "198.51.100.1/32",
		"2001:db8:1:2:3:4:5:6":         "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff:ffff::":     "2001:db8:1:2::/64",
		"2001:db8:1:3::":               "2001:db8:1:3::/64",
		"::1":                          "::/64",
		"something that is no address": "invalid Prefix",
	} {
		parsed, _ := parseAddress(address)
		got := pending.Network(parsed).String()
		redistest.ErrorIf(t, got != want, "%s: got %s, want %s", address, got, want)
	}
}

// Whatever a client sends, a proxy that appends its address has the last word.
func FuzzClientAddress(f *testing.F) {
	f.Add("198.51.100.1, 10.0.0.1")
	f.Add(",,unknown,[::1]:80,\x00")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, sent string) {
		r := &http.Request{RemoteAddr: "10.1.2.3:80", Header: http.Header{forwardedFor: {sent, sent + ", 203.0.113.5, 10.0.0.2"}}}
		got := clientAddress(r, trusted)
		redistest.ErrorIf(t, got.String() != "203.0.113.5", "%q makes it %v", sent, got)
	})
}
