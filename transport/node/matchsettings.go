package node

import (
	"bytes"
	"fmt"
	"os"

	"github.com/go-json-experiment/json"

	"roomd/room"
	"roomd/transport"
)

// matchSettings are the allowed settings of rooms created by a match. The flag has them as JSON, or as @ and a file
// with JSON.
type matchSettings transport.MatchSettings

// UnmarshalText reads a flag's value for kong.
func (m *matchSettings) UnmarshalText(text []byte) (err error) {
	if file, is := bytes.CutPrefix(text, []byte("@")); is {
		if text, err = os.ReadFile(string(file)); err != nil {
			return err
		}
	}
	list := transport.MatchSettings{} // [] allows none
	if err := json.Unmarshal(text, &list, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf(`%.80q is not a list of settings such as [{"capacity":4}], or @FILE: %w`, text, err)
	}
	*m = matchSettings(list)
	return list.Check()
}

// String returns the JSON, empty for nil.
func (m matchSettings) String() string {
	if m == nil {
		return ""
	}
	text, err := json.Marshal([]room.Settings(m))
	if err != nil {
		return err.Error() // invalid JSON in labels; a flag's labels are valid
	}
	return string(text)
}
