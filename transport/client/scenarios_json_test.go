package client_test

import (
	"encoding/json"

	"roomd/transport/client"
	"roomd/transport/protocol"
)

// read returns the next change of an iteration as the scenarios have it.
func (r *reader) read() string {
	c, ok := client.Change{}, true
	if r.first != nil {
		c, r.first = *r.first, nil
	} else if c, ok = r.next(); !ok {
		return "end"
	}
	fields := map[string]any{"type": c.Type, "epoch": c.Epoch, "version": c.Version}
	put := func(name string, value any, isSet bool) {
		if isSet {
			fields[name] = value
		}
	}
	put("user", c.User, c.User != "")
	switch c.Type {
	case protocol.ChangeJoin, protocol.ChangeLeave, protocol.ChangeAway, protocol.ChangeBack, protocol.ChangeMember:
		fields["seat"] = c.Seat
	}
	put("away", true, c.Away)
	put("ready", true, c.Ready)
	put("reason", c.Reason, c.Reason != "")
	put("text", c.Text, c.Text != "")
	put("data", c.Data, c.Data != "")
	put("to", c.To, c.To.Room != "" || c.To.Users != nil)
	if c.Settings != nil {
		fields["settings"] = settings(*c.Settings)
	}
	return text(fields)
}

// view returns a room as the scenarios have it.
func view(v client.View) string {
	users := []map[string]any{}
	for _, u := range v.Users {
		fields := map[string]any{"user": u.User, "seat": u.Seat}
		if u.Away {
			fields["away"] = true
		}
		if u.Ready {
			fields["ready"] = true
		}
		if u.Data != "" {
			fields["data"] = u.Data
		}
		users = append(users, fields)
	}
	fields := map[string]any{"epoch": v.Epoch, "version": v.Version, "users": users, "settings": settings(v.Settings)}
	if v.Data != "" {
		fields["data"] = v.Data
	}
	if v.Member {
		fields["seat"] = v.Seat
	}
	return text(fields)
}

// settings leaves out what is zero.
func settings(s protocol.Settings) map[string]any {
	fields := map[string]any{}
	if s.Capacity != 0 {
		fields["capacity"] = s.Capacity
	}
	if s.Closed {
		fields["closed"] = true
	}
	if s.Keep {
		fields["keep"] = true
	}
	if s.Data != "" {
		fields["data"] = s.Data
	}
	return fields
}

func text(fields map[string]any) string {
	data, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
