package room

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Settings are decided for one room. They are stored with the room, and bind every node, whatever its Rules are. A
// change of them is a version. The first commit of a room gives it those of the Rules, so that all nodes agree.
//
// The tags are the table of the settings: JSON name, largest number or choices (the default first), meaning, and
// whether the host may change it. See [SettingFields]. [Configure] sets all except readOnly ones. A default choice is
// "" in the normal form.
type Settings struct {
	Capacity int    `json:"capacity" minimum:"0" maximum:"65536" host:"may" doc:"How many seats there are; 0 is as many as there can be."`
	Closed   bool   `json:"closed,omitzero" host:"may" doc:"Nobody comes in; members stay, and come back."`
	Keep     bool   `json:"keep,omitzero" doc:"The room is kept when it is empty."`
	Data     Choice `json:"data,omitzero" enum:"members,admins" default:"members" doc:"Who may set the room's data."`
	Watch    Choice `json:"watch,omitzero" enum:"all,members" default:"all" host:"may" doc:"Who may watch the room and see its members. Admins may in any case."`
	Labels   Labels `json:"labels,omitzero" host:"may" doc:"What the room is for, such as {\"mode\":\"ranked\"}: up to 8 names with values, by which players find it."`
	Host     Choice `json:"host,omitzero" enum:"none,longest" default:"none" doc:"Who is the host, who may kick, close and configure: nobody, or the member who has sat longest, until it leaves."`
	History  int    `json:"history,omitzero" minimum:"0" maximum:"100" doc:"How many messages the room keeps for those who join or come back, of 64 KiB together."`
	Grace    Grace  `json:"grace,omitzero" minimum:"0" maximum:"2592000000" doc:"For how many ms a user without a connection keeps the seat; 0 frees it at once, and without this setting --grace of the nodes counts."`

	// Default says that a player began the room, with the settings of the Rules or of Join.Begin, and nobody with
	// authority has configured it. Such a room is of no use when it is empty. Players are not shown this field.
	Default bool `json:"default,omitzero" readOnly:"true"`
}

// Choice is the value of a setting with a fixed list of values: "" for the default, or the name in JSON.
type Choice string

// UnmarshalText accepts any name; an empty one is unknown. [Configure] refuses an unknown one, [Settings.Adapt]
// replaces it.
func (c *Choice) UnmarshalText(name []byte) error {
	*c = cmp.Or(Choice(name), "unknown")
	return nil
}

// The choices of Settings that are not the default.
const (
	DataAdmins   Choice = "admins"  // only somebody with authority over the room sets its data
	WatchMembers Choice = "members" // only members watch the room and list its members; by default all except banned users
	HostLongest  Choice = "longest" // the first member is the host; when the host leaves, the member who joined first
)

// Adapt makes settings usable that a later version, or somebody by hand, has written to Redis: an unknown choice
// becomes the last one, a number the nearest allowed one, and invalid labels none. [Configure] refuses such settings.
func (s *Settings) Adapt() {
	for _, f := range SettingFields {
		switch value := f.In(s).(type) {
		case *int:
			*value = min(max(*value, 0), f.Most)
		case *Grace:
			*value = min(max(*value, 0), NewGrace(int64(f.Most)))
		case *Labels:
			if value.Check() != nil {
				*value = ""
			}
		case *Choice:
			if f.normalize(value); *value != "" && !slices.Contains(f.Values, string(*value)) {
				*value = Choice(f.Values[len(f.Values)-1])
			}
		}
	}
}

// Named returns the settings with the names of default choices in place of "".
func (s Settings) Named() Settings {
	for _, f := range SettingFields {
		if choice, is := f.In(&s).(*Choice); is && *choice == "" {
			*choice = Choice(f.Values[0])
		}
	}
	return s
}

// Setting describes a field of [Settings].
type Setting struct {
	Name   string   // in JSON
	Most   int      // of a number: the maximum; the minimum is 0
	Values []string // of a choice; the first is the default, the last replaces unknown ones
	Doc    string
	Host   bool // the host of the room may change it
	index  int
}

// SettingFields describe the settings that [Configure] sets.
var SettingFields = describeSettings()

func describeSettings() (all []Setting) {
	t := reflect.TypeFor[Settings]()
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if tag.Get("readOnly") != "" {
			continue
		}
		s := Setting{Doc: tag.Get("doc"), Host: tag.Get("host") != "", index: i}
		s.Name, _, _ = strings.Cut(tag.Get("json"), ",")
		s.Most, _ = strconv.Atoi(tag.Get("maximum"))
		if names := tag.Get("enum"); names != "" {
			s.Values = strings.Split(names, ",")
		}
		all = append(all, s)
	}
	return all
}

// In returns a pointer to the field: *int, *bool, *Choice for a choice, *Grace or *Labels.
func (f Setting) In(s *Settings) any {
	return reflect.ValueOf(s).Elem().Field(f.index).Addr().Interface()
}

func (f Setting) normalize(choice *Choice) {
	if string(*choice) == f.Values[0] {
		*choice = ""
	}
}

// Unused reports whether an empty room with these settings is of no use, and so is not listed: because nobody has
// configured it, or because nobody can join it and it is not kept.
func (s Settings) Unused() bool { return s.Default || s.Closed && !s.Keep }

// Seats returns how many seats there are.
func (s Settings) Seats() int { return Capacity(s.Capacity).Seats() }

// check returns the settings in their normal form, or an InvalidError.
func (s Settings) check(rules Rules) (Settings, error) {
	if most := rules.most(); s.Capacity < 0 || s.Capacity > most {
		return s, invalid("capacity", "must be from 0 (as many as there can be) to %d, not %d", most, s.Capacity)
	}
	for _, f := range SettingFields {
		switch value := f.In(&s).(type) {
		case *int:
			if f.Name != "capacity" && (*value < 0 || *value > f.Most) {
				return s, invalid(f.Name, "must be from 0 to %d, not %d", f.Most, *value)
			}
		case *Grace:
			if ms, set := value.Millis(); set && (ms < 0 || ms > int64(f.Most)) {
				return s, invalid(f.Name, "must be from 0 to %d ms, not %d", f.Most, ms)
			}
		case *Choice:
			if f.normalize(value); *value != "" && !slices.Contains(f.Values, string(*value)) {
				return s, invalid(f.Name, "must be %s", strings.Join(f.Values, " or "))
			}
		}
	}
	return s, s.Labels.Check()
}

// Configure replaces a room's settings. It needs authority over the room, or a [Claim] of its host; the host may not
// change every [Setting], and fails with [ErrForbidden]. It fails with [ErrInvalid] if members would not fit.
type Configure struct {
	Settings Settings // all of them; zero values are set, too. Default is ignored
	Expect   Expect   // makes it fail with [ErrConflict] unless the room is at that version
	As       Claim    // the host's claim; zero with authority
}

func (Configure) about() (Kind, string, bool) { return kindSettings, "", false }

func (a Configure) check(rules Rules) (_ Action, err error) {
	a.Settings.Default = false
	if a.As, err = a.As.check(); err == nil {
		a.Settings, err = a.Settings.check(rules)
	}
	return a, err
}

func (a Configure) apply(r *Room, _ Rules, by Origin) (int, error) {
	if err := a.As.prove(r, by); err != nil {
		return 0, err
	}
	if a.As != (Claim{}) {
		if err := a.Settings.checkHost(r.state.settings); err != nil {
			return 0, err
		}
		a.Settings.Default = r.state.settings.Default // only authority ends Default
	}
	if err := a.Expect.checkRoom(r); err != nil {
		return 0, err
	}
	s := a.Settings
	switch last := r.members.seats.highest(); {
	case r.Count() > s.Seats():
		return 0, invalid("capacity", "must not be less than the %d members, is %d", r.Count(), s.Capacity)
	case last >= s.Seats():
		return 0, invalid("capacity", "must be more than %d, on which seat %s sits, not %d",
			last, r.members.seats.at(last), s.Capacity)
	}
	if !r.state.settled || r.state.settings != s {
		r.update(Update{Type: kindSettings, Detail: &Detail{Settings: &s}})
	}
	return 0, nil
}

// checkHost fails with ErrForbidden if s differs from now in a setting that the host may not change.
func (s Settings) checkHost(now Settings) error {
	is, was := reflect.ValueOf(s), reflect.ValueOf(now)
	for _, f := range SettingFields {
		if !f.Host && !is.Field(f.index).Equal(was.Field(f.index)) {
			return Forbid("settings.%s: only admins may change it, and so the host has to send it as it is", f.Name)
		}
	}
	return nil
}

// checkBegin is check for the settings of a new room. Nil is valid.
func (s *Settings) checkBegin(rules Rules) (*Settings, error) {
	if s == nil {
		return nil, nil
	}
	normal, err := s.check(rules)
	return &normal, err
}

// begin gives these settings, with Default, to a room that has none. It fails with ErrOtherLabels if the room has
// settings without these labels. Nil does nothing.
func (s *Settings) begin(r *Room) error {
	switch {
	case s == nil:
	case r.state.settled:
		if !r.state.settings.Labels.Include(s.Labels) {
			return Refuse(ErrOtherLabels, "room %s has other labels by now", r.ID)
		}
	default:
		begin := *s
		begin.Default = true
		r.update(Update{Type: kindDefaults, Detail: &Detail{Settings: &begin}})
	}
	return nil
}

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
	text, _ := json.Marshal(from, json.Deterministic(true))
	return Labels(text)
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
		return invalid("labels", "must be at most %d, not %d", MaxLabels, len(all))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(name) > maxLabelName || !isName(name) {
			return invalid("labels", "must have names of 1 to %d of A-Z a-z 0-9 . _ -, not %.40q", maxLabelName, name)
		}
		if value := all[name]; len(value) > maxLabelValue || !isName(value) {
			return invalid("labels."+name, "must be 1 to %d of A-Z a-z 0-9 . _ -, not %.70q", maxLabelValue, value)
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
