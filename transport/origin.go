package transport

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"roomd/room"
	"roomd/transport/protocol"
)

// origin is the origin of a web page (RFC 6454), normalised so that equal origins are equal values: lower case,
// without the scheme's default port. A dot at the end of a host makes another origin, as in browsers.
type origin struct {
	scheme string
	host   string // an IPv6 address in brackets
	port   string // "" for the scheme's own
}

// parseOrigin reads a value of the Origin header, except null.
func parseOrigin(text string) (o origin, ok bool) {
	scheme, rest, ok := strings.Cut(strings.ToLower(text), "://")
	if !ok || scheme == "" || len(scheme)+len(rest)+3 != len(text) || strings.ContainsFunc(scheme, notOfScheme) {
		return o, false
	}
	host, port, ok := splitHost(rest)
	if port == defaultPorts[scheme] {
		port = ""
	}
	return origin{scheme, host, port}, ok
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

func notOfScheme(c rune) bool { return notAlphanumeric(c) && !strings.ContainsRune("+-.", c) }

func notOfHost(c rune) bool { return notAlphanumeric(c) && !strings.ContainsRune("-._", c) }

func notAlphanumeric(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }

// splitHost splits host or host:port, in lower case; the port is "" if it is left out.
func splitHost(text string) (host, port string, ok bool) {
	host = text
	if colon := strings.LastIndexByte(text, ':'); colon > strings.LastIndexByte(text, ']') {
		host = text[:colon]
		n, err := strconv.ParseUint(text[colon+1:], 10, 16)
		if err != nil || n == 0 {
			return "", "", false
		}
		port = strconv.FormatUint(n, 10)
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		return "[" + ip.String() + "]", port, ok && err == nil && ip.Is6() && ip.Zone() == ""
	}
	return host, port, host != "" && !strings.ContainsFunc(host, notOfHost)
}

// origins are those that Options.AllowOrigins names.
type origins struct {
	all   bool // "*"
	null  bool // of files and sandboxes
	exact map[origin]bool
	below map[origin]bool // https://game.example stands for https://*.game.example
}

func parseOrigins(texts []string) (*origins, error) {
	os := &origins{exact: make(map[origin]bool), below: make(map[origin]bool)}
	for _, text := range texts {
		if err := os.add(text); err != nil {
			return nil, err
		}
	}
	return os, nil
}

func (os *origins) add(text string) error {
	switch text {
	case "*":
		os.all = true
		return nil
	case "null":
		os.null = true
		return nil
	}
	scheme, domain, subdomains := strings.Cut(text, "://*.")
	if !subdomains {
		o, ok := parseOrigin(text)
		if !ok {
			return badOrigin(text)
		}
		os.exact[o] = true
		return nil
	}
	o, ok := parseOrigin(scheme + "://" + domain)
	if !ok || !isDomain(o.host) {
		return badOrigin(text)
	}
	os.below[o] = true
	return nil
}

func badOrigin(text string) error {
	return &room.InvalidError{Field: "AllowOrigins", Problem: fmt.Sprintf("must be like https://game.example, "+
		"without a path, like https://*.game.example for all its subdomains, or *, not %.200q", text)}
}

// isDomain reports whether a host can have subdomains. An IP address cannot: *.0.0.1 must not allow 127.0.0.1.
func isDomain(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if label == "" {
			return false
		}
	}
	notDigit := func(c rune) bool { return c < '0' || c > '9' }
	return host[0] != '[' && strings.ContainsFunc(labels[len(labels)-1], notDigit)
}

// allow reports whether the pages of an origin may connect.
func (os *origins) allow(text string) bool {
	if os.all || os.null && text == "null" {
		return true
	}
	o, ok := parseOrigin(text)
	if !ok {
		return false
	}
	if os.exact[o] {
		return true
	}
	for len(os.below) > 0 {
		label, parent, found := strings.Cut(o.host, ".")
		if !found || label == "" {
			return false
		}
		if o.host = parent; os.below[o] {
			return true
		}
	}
	return false
}

// allowHost reports whether a host, with or without a port, belongs to an allowed origin.
func (os *origins) allowHost(text string) bool {
	host, _, ok := splitHost(strings.ToLower(text))
	for o := range os.exact {
		if ok && o.host == host {
			return true
		}
	}
	for o := range os.below {
		if ok && strings.HasSuffix(host, "."+o.host) {
			return true
		}
	}
	return os.all
}

// isOwn reports whether an origin is the server's own, by the Host of a request. Without TLS both http and https
// count: a proxy in front may speak https.
func isOwn(text string, r *http.Request) bool {
	o, ok := parseOrigin(text)
	if !ok || o.scheme != "https" && (o.scheme != "http" || r.TLS != nil) {
		return false
	}
	own, ok := parseOrigin(o.scheme + "://" + r.Host)
	return ok && own == o
}

// AllowsOrigin reports whether a request comes from no page, or from one whose origin may connect: pages of other
// sites must not act for their viewers. Programs that are not browsers send no Origin.
func (s *Server) AllowsOrigin(r *http.Request) bool {
	switch sent := r.Header["Origin"]; len(sent) {
	case 0:
		return true
	case 1:
		return sent[0] == "" || s.origins.allow(sent[0]) || isOwn(sent[0], r)
	}
	return false // no browser sends two Origin headers
}

// AllowsHost reports whether Options.AllowOrigins allows an origin of a host, whose port, if any, does not matter.
func (s *Server) AllowsHost(host string) bool { return s.origins.allowHost(host) }

// refuseOrigin tells the page and the operator how to allow the origin.
func (s *Server) refuseOrigin(w http.ResponseWriter, r *http.Request) {
	e := protocol.NewError(protocol.CodeForbidden,
		"pages of the origin %.200q may not connect; --allow-origin allows it", strings.Join(r.Header["Origin"], ", "))
	s.rateLimitedLogs.origins.Happened(e)
	Refuse(w, http.StatusForbidden, e)
}
