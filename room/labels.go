package room

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Limits of [Labels].
const (
	MaxLabels     = 8
	maxLabelName  = 32 // bytes
	maxLabelValue = 64 // bytes
)

// Labels tell players what a room is for: names with values, such as a game's mode, of A-Z a-z 0-9 . _ -. The string
// is a JSON object in one normal form, sorted by name, so that two can be compared. The zero value is none.
type Labels string

// MakeLabels returns labels in their normal form. [Configure] refuses invalid ones.
func MakeLabels(from map[string]string) Labels {
	if len(from) == 0 {
		return ""
	}
	var text strings.Builder
	for i, name := range slices.Sorted(maps.Keys(from)) {
		text.WriteByte("{,"[min(i, 1)])
		n, _ := json.Marshal(name)
		v, _ := json.Marshal(from[name])
		text.Write(n)
		text.WriteByte(':')
		text.Write(v)
	}
	text.WriteByte('}')
	return Labels(text.String())
}

// Map returns the values by name.
func (l Labels) Map() map[string]string {
	all := make(map[string]string)
	if l != "" {
		_ = json.Unmarshal([]byte(l), &all)
	}
	return all
}

// Include reports whether l has all of the others.
func (l Labels) Include(others Labels) bool {
	if others == "" || l == others {
		return true
	} else if l == "" {
		return false
	}
	all := l.Map()
	for name, value := range others.Map() {
		if got, there := all[name]; !there || got != value {
			return false
		}
	}
	return true
}

// Check returns an [InvalidError] if the labels are invalid.
func (l Labels) Check() error {
	all := l.Map()
	if len(all) > MaxLabels {
		return &InvalidError{"labels", fmt.Sprintf("must be at most %d, not %d", MaxLabels, len(all))}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(name) > maxLabelName || !isName(name) {
			return &InvalidError{"labels", fmt.Sprintf("must have names of 1 to %d of A-Z a-z 0-9 . _ -, not %.40q", maxLabelName, name)}
		}
		if value := all[name]; len(value) > maxLabelValue || !isName(value) {
			return &InvalidError{"labels." + name, fmt.Sprintf("must be 1 to %d of A-Z a-z 0-9 . _ -, not %.70q", maxLabelValue, value)}
		}
	}
	return nil
}

func isName(text string) bool {
	return text != "" && strings.IndexFunc(text, func(c rune) bool { return !isNameRune(c) }) < 0
}

// MarshalJSON implements [json.Marshaler] with an object of strings.
func (l Labels) MarshalJSON() ([]byte, error) {
	if l == "" {
		return []byte("{}"), nil
	}
	return []byte(l), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Labels) UnmarshalJSON(text []byte) error {
	all := make(map[string]string)
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("labels must be an object of strings: %w", err)
	}
	*l = MakeLabels(all)
	return nil
}
