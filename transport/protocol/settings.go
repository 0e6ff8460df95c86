package protocol

import (
	"encoding"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

// readSettings reads the settings of a configure. It fails only where the JSON is broken.
func (d *decoder) readSettings() error {
	if kind := d.json.PeekKind(); kind != jsontext.KindBeginObject {
		d.bad(fieldSettings, "must be an object, not "+kindName(kind))
		return d.json.SkipValue()
	}
	d.req.Settings = new(room.Settings)
	_, err := d.json.ReadToken()
	for seen := fieldSet(0); err == nil && d.json.PeekKind() != jsontext.KindEndObject; {
		err = d.readSetting(&seen)
	}
	if err == nil {
		_, err = d.json.ReadToken()
	}
	return err
}

func (d *decoder) readSetting(seen *fieldSet) error {
	raw, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	unquoted, ok := d.unquote(raw)
	name := string(unquoted)
	value, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	which := slices.IndexFunc(room.SettingFields, func(f room.Setting) bool { return f.Name == name })
	if which < 0 || !ok {
		d.bad(fieldSettings, badName(name, ok, settingNames()))
		return nil
	}
	wrong := "given twice"
	if !seen.has(field(which)) {
		wrong = d.setting(room.SettingFields[which], value)
	}
	*seen |= 1 << which
	if wrong != "" {
		d.badAt(fieldSettings, "settings."+name, wrong)
	}
	return nil
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
			_ = into.UnmarshalText([]byte(name)) // it takes any
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
