package protocol

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Settings are what is decided about a room.
type Settings struct {
	// Capacity is how many members the room may have; 0 is as many as there can be.
	Capacity int `json:"capacity"`
	// Closed rooms let nobody in; members stay.
	Closed bool `json:"closed,omitzero"`
	// Keep says that the room outlives its last member.
	Keep bool `json:"keep,omitzero"`
	// Data says who may set the data of the room: DataAdmins, or, if empty, every member, too.
	Data string `json:"data,omitzero"`
}

// DataAdmins is the Data of [Settings] where only admins may set the data of the room.
const DataAdmins = "admins"

// settingNames are the names in the settings of a configure.
var settingNames = []string{"capacity", "closed", "keep", "data"}

// readSettings reads the settings of a configure. It fails only where the JSON is broken.
func (d *decoder) readSettings() error {
	if kind := d.json.PeekKind(); kind != jsontext.KindBeginObject {
		d.bad(fieldSettings, "must be an object, not "+kindName(kind))
		return d.json.SkipValue()
	}
	d.req.Settings = new(Settings)
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
	which := slices.Index(settingNames, name)
	if which < 0 || !ok {
		d.bad(fieldSettings, badName(name, ok, settingNames))
		return nil
	}
	wrong := "given twice"
	if !seen.has(field(which)) {
		wrong = d.setting(name, value)
	}
	*seen |= 1 << which
	if wrong != "" {
		d.badAt(fieldSettings, "settings."+name, wrong)
	}
	return nil
}

func (d *decoder) setting(name string, value jsontext.Value) (wrong string) {
	s := d.req.Settings
	switch name {
	case "capacity":
		var n int64
		n, wrong = number(value, 0, MaxSeat+1)
		s.Capacity = int(n)
	case "closed":
		s.Closed, wrong = truth(value)
	case "keep":
		s.Keep, wrong = truth(value)
	case "data":
		s.Data, wrong = d.choice(value, DataAdmins, "")
	}
	return wrong
}
