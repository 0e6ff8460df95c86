package api

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"roomd/room"
)

// etag returns the version of a room as an ETag (RFC 9110, section 8.8.3).
func etag(epoch string, version uint64) string {
	return `"` + epoch + "." + strconv.FormatUint(version, 10) + `"`
}

// checkConditions refuses a change with a condition that it would ignore: the caller relies on the condition.
func (q *request) checkConditions(op *operation) error {
	if op.method == http.MethodGet {
		return nil // a read depends on no condition
	}
	for _, name := range []string{"If-Match", "If-None-Match", "If-Unmodified-Since"} {
		if len(q.Header[name]) > 0 && !(op.match && name == "If-Match") {
			return badField(name, "does not count for this request; If-Match does for PUT and deal")
		}
	}
	return nil
}

// matchable is the form of If-Match: an ETag in quotes, or a version, in quotes or without.
var matchable = regexp.MustCompile(`^(?:"(?:([a-z0-9]+)\.)?(0|[1-9][0-9]*)"|(0|[1-9][0-9]*))$`)

// ifMatch returns the version that If-Match expects.
func (q *request) ifMatch() (expected room.Expect, err error) {
	lines := q.Header["If-Match"]
	if len(lines) == 0 {
		return expected, nil
	}
	if found := matchable.FindStringSubmatch(strings.Trim(lines[0], " \t")); found != nil && len(lines) == 1 {
		if version, err := strconv.ParseUint(found[2]+found[3], 10, 63); err == nil {
			return room.ExpectVersion(found[1], version), nil
		}
	}
	return expected, badField("If-Match", `must be an ETag of the room, such as "k3v….18", or only its version, such as 18`)
}

// ifNoneMatch reports whether the caller already has that version of a room.
func (q *request) ifNoneMatch(version string) bool {
	for _, line := range q.Header["If-None-Match"] {
		for tag := range strings.SplitSeq(line, ",") { // no epoch has a comma
			if tag = strings.Trim(tag, " \t"); tag == "*" || strings.TrimPrefix(tag, "W/") == version {
				return true
			}
		}
	}
	return false
}
