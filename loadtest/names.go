package loadtest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"roomd/room"
)

// name returns the i-th player's name as the player types it, and in the server's normal
// form. Some of the names break code that was only tried with ASCII.
func name(i int) (typed, normal string) {
	switch i % 6 {
	case 0:
		typed = fmt.Sprintf("张三-%d", i)
	case 1:
		typed = fmt.Sprintf("🀄👩‍👩‍👧 %d", i)
	case 2: // the longest that is allowed
		typed = fmt.Sprint(i)
		typed += strings.Repeat("张", room.MaxUserLength-utf8.RuneCountInString(typed))
	case 3: // NFC merges the accent into its letter
		typed = fmt.Sprintf("Jose\u0301 %d", i)
	case 4:
		typed = fmt.Sprintf(`"<%d>&\'{}:* %%`, i)
	default:
		typed = fmt.Sprintf("player-%d", i)
	}
	return typed, norm.NFC.String(typed)
}
