package bench

import "fmt"

// told is what a client was told last about its membership.
type told int8

const (
	toldOut told = iota
	toldIn
	toldNothing // its last action failed, and may have happened or not
)

// maxTexts is how many violations of a measurement are told in words.
const maxTexts = 5

// Violations counts where rooms' lists are not what their users were told.
type Violations struct {
	Lost      int `json:"lost"`      // told that they are in, and not in the list
	Phantom   int `json:"phantom"`   // in the list, and told that they are not or never there
	Duplicate int `json:"duplicate"` // in the list once more

	texts []string // the first of them
}

func (v *Violations) total() int { return v.Lost + v.Phantom + v.Duplicate }

// roster is who has to be in a room at the end, and who may be.
type roster struct {
	room string
	must map[string]bool
	may  map[string]bool
}

func newRoster(room string, residents []string) *roster {
	r := &roster{room, make(map[string]bool), make(map[string]bool)}
	for _, user := range residents {
		r.must[user] = true
	}
	return r
}

// add says what a user was told last.
func (r *roster) add(user string, t told) {
	switch t {
	case toldIn:
		r.must[user] = true
	case toldNothing:
		r.may[user] = true
	}
}

// check compares a room's list, in any order, with who has to be and may be in it.
func (v *Violations) check(r *roster, list []string) {
	seen := make(map[string]bool, len(list))
	for _, user := range list {
		switch {
		case seen[user]:
			v.Duplicate++
			v.describe("%s is more than once in %s", user, r.room)
		case !r.must[user] && !r.may[user]:
			v.Phantom++
			v.describe("%s is in %s and was not told so", user, r.room)
		}
		seen[user] = true
	}
	for user := range r.must {
		if !seen[user] {
			v.Lost++
			v.describe("%s was told to be in %s and is not", user, r.room)
		}
	}
}

func (v *Violations) describe(format string, args ...any) {
	if len(v.texts) < maxTexts {
		v.texts = append(v.texts, fmt.Sprintf(format, args...))
	}
}
