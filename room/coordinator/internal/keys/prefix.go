package keys

import (
	"fmt"
	"strings"

	"roomd/room"
)

// maxPrefix limits a prefix, in bytes.
const maxPrefix = 64

// words are the first words of all keys after the prefix. Node stands for Nodes, too.
var words = []string{"LockRoom", "Room", "Node", "Lobby", "Timers", "Feed"}

// Check returns a [room.InvalidError] for field KeyPrefix unless prefix is valid or empty.
//
// A prefix ends with a colon, and none of its parts between colons begins with one of the words. So after the prefix
// a name continues with a word, and a longer prefix does not: no two Spaces share a name, even if one prefix is empty
// or begins the other. A prefix has no signs of patterns, for searches and ACLs, and no braces of hash tags.
func Check(prefix string) error {
	if problem := problemOf(prefix); problem != "" {
		return &room.InvalidError{Field: "KeyPrefix", Problem: fmt.Sprintf("is %.100q, it %s", prefix, problem)}
	}
	return nil
}

func problemOf(prefix string) string {
	forbidden := strings.IndexFunc(prefix, isForbidden)
	switch {
	case prefix == "":
		return ""
	case len(prefix) > maxPrefix:
		return fmt.Sprintf("must be at most %d characters long, not %d", maxPrefix, len(prefix))
	case forbidden >= 0:
		return fmt.Sprintf("may hold only A-Z a-z 0-9 . _ - and colons, not %q", []rune(prefix[forbidden:])[0])
	case !strings.HasSuffix(prefix, ":"):
		return fmt.Sprintf("must end with a colon, such as %q", prefix+":")
	}
	for part := range strings.SplitSeq(prefix, ":") {
		for _, word := range words {
			if strings.HasPrefix(part, word) {
				return fmt.Sprintf("may not have %q, which begins with a word of roomd's own names: %s", part,
					strings.Join(words, ", "))
			}
		}
	}
	return ""
}

func isForbidden(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-:", r))
}
