package api

import (
	"net/http"
	"strconv"
	"strings"

	"roomd/room"
)

// etag is the version of a room as HTTP has it (RFC 9110, section 8.8.3).
func etag(epoch string, version uint64) string {
	return `"` + epoch + "." + strconv.FormatUint(version, 10) + `"`
}

// expected is what If-Match names.
type expected struct {
	epoch   string // empty for any
	version uint64
}

// checkConditions refuses a change under a condition that does not count for it: the caller relies
// on it.
func (q *request) checkConditions(m method) error {
	if q.Method == http.MethodGet || q.Method == http.MethodHead {
		return nil // nothing depends on it
	}
	for _, name := range []string{"If-Match", "If-None-Match", "If-Unmodified-Since"} {
		if len(q.Header[name]) > 0 && !(m.match && name == "If-Match") {
			return badField(name, "does not count for this request; If-Match does for PUT")
		}
	}
	return nil
}

// ifMatch returns what the room has to be at, or nil if that does not matter.
func (q *request) ifMatch() (*expected, error) {
	lines := q.Header["If-Match"]
	if len(lines) == 0 {
		return nil, nil
	}
	bad := badField("If-Match", `must be an ETag of the room, such as "k3v….18", or only its version, such as 18`)
	if len(lines) > 1 {
		return nil, bad
	}
	text := strings.Trim(lines[0], " \t")
	if inner, ok := strings.CutPrefix(text, `"`); ok {
		if text, ok = strings.CutSuffix(inner, `"`); !ok {
			return nil, bad
		}
	} else if strings.Contains(text, ".") {
		return nil, bad // an ETag without quotes
	}
	e := new(expected)
	epoch, version, whole := strings.Cut(text, ".")
	if whole {
		e.epoch = epoch
	} else {
		version = epoch
	}
	n, err := strconv.ParseUint(version, 10, 63)
	if err != nil || strconv.FormatUint(n, 10) != version || whole && !isEpoch(epoch) {
		return nil, bad
	}
	e.version = n
	return e, nil
}

// isEpoch reports whether a room could have that epoch.
func isEpoch(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
}

// ifNoneMatch reports whether the caller has that version of a room already.
func (q *request) ifNoneMatch(s room.Snapshot) bool {
	has := etag(s.Epoch, s.Version)
	for _, line := range q.Header["If-None-Match"] {
		for tag := range strings.SplitSeq(line, ",") { // no epoch has a comma
			if tag = strings.Trim(tag, " \t"); tag == "*" || strings.TrimPrefix(tag, "W/") == has {
				return true
			}
		}
	}
	return false
}
