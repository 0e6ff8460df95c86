package transport

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"roomd/transport/internal/pending"
)

// forwardedFor is the header in which a proxy appends the address of its client.
const forwardedFor = "X-Forwarded-For"

// clientAddress returns the address from which a client connects. It is the zero Addr if there is
// none, as with a Unix socket.
//
// If the peer is a trusted proxy, that is the right-most address of X-Forwarded-For that no trusted
// proxy has: whatever stands to the left of it the client may have made up. Where an entry is no
// address, the last one read counts. The header of others is not read.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	address, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	lines := r.Header[forwardedFor]
	for _, line := range slices.Backward(lines) {
		for entry := range entriesBackward(line) {
			if !isTrusted(address, trusted) {
				return address
			}
			next, ok := parseAddress(entry)
			if !ok {
				return address
			}
			address = next
		}
	}
	return address
}

// entriesBackward yields the entries of a list, the last one first. Empty ones do not count
// (RFC 9110, section 5.6.1).
func entriesBackward(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for list != "" {
			comma := strings.LastIndexByte(list, ',')
			entry := strings.Trim(list[comma+1:], " \t")
			list = list[:max(comma, 0)]
			if entry != "" && !yield(entry) {
				return
			}
		}
	}
}

// parseAddress reads an address, which may have brackets and a port. IPv4 in IPv6 becomes IPv4.
func parseAddress(text string) (netip.Addr, bool) {
	bare := text
	if inside, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inside, "]") {
		bare = strings.TrimSuffix(inside, "]")
	}
	address, err := netip.ParseAddr(bare)
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		address = withPort.Addr()
	}
	return address.Unmap().WithZone(""), true
}

func isTrusted(address netip.Addr, trusted []netip.Prefix) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(address) })
}

// NetworkOf returns what counts as the address of a request's client. It is the zero Prefix if there
// is none, as with a Unix socket.
func (s *Server) NetworkOf(r *http.Request) netip.Prefix {
	return pending.Network(clientAddress(r, s.opts.TrustProxy))
}

// remoteOf is a client's address as logs show it.
func remoteOf(r *http.Request, address netip.Addr) string {
	if direct, ok := parseAddress(r.RemoteAddr); !ok || direct == address {
		return r.RemoteAddr
	}
	return address.String()
}
