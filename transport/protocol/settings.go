package protocol

import (
	"encoding"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

// readSettings reads the settings of a configure or a match. It fails only where the JSON is broken.
func (d *decoder) readSettings() error {
	d.req.Settings = new(room.Settings)
	seen := fieldSet(0)
	return d.readParts(fieldSettings, func(name string, valid bool, value jsontext.Value) {
		which := slices.IndexFunc(room.SettingFields, func(f room.Setting) bool { return f.Name == name })
		if which < 0 || !valid {
			d.bad(fieldSettings, badName(name, valid, settingNames()))
			return
		}
		wrong := "given twice"
		if !seen.has(field(which)) {
			wrong = d.setting(room.SettingFields[which], value)
		}
		seen |= 1 << which
		if wrong != "" {
			d.badAt(fieldSettings, "settings."+name, wrong)
		}
	})
}

func (d *decoder) setting(f room.Setting, value jsontext.Value) (wrong string) {
	switch into := f.In(d.req.Settings).(type) {
	case *int:
		var n int64
		n, wrong = number(value, 0, int64(f.Most))
		*into = int(n)
	case *bool:
		*into, wrong = truth(value)
	case *room.Labels:
		*into, wrong = labels(value)
	case encoding.TextUnmarshaler:
		var name string
		if name, wrong = d.choice(value, f.Values...); wrong == "" {
			_ = into.UnmarshalText([]byte(name)) // any text is valid here
		}
	}
	return wrong
}

func settingNames() (names []string) {
	for _, f := range room.SettingFields {
		names = append(names, f.Name)
	}
	return names
}
