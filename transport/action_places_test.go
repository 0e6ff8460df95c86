package transport

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

func actionNames() (names []string) {
	for _, a := range protocol.Actions {
		names = append(names, a.Name)
	}
	return names
}

// sourceOf returns the text of files, without tests.
func sourceOf(t *testing.T, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	redistest.FatalIf(t, err != nil || len(paths) == 0, "%s: %d files, %v", pattern, len(paths), err)
	var all strings.Builder
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			redistest.OK(t, err)
			all.Write(text)
		}
	}
	return all.String()
}

// An action of the protocol's table is everywhere where one has to be. A place that was forgotten is
// named.
func TestActions_AreEverywhere(t *testing.T) {
	server, client, script, types := sourceOf(t, "internal/session/*.go"), sourceOf(t, "client/*.go"), sourceOf(t, "page/roomd.js"), sourceOf(t, "page/roomd.d.ts")
	document, plays := sourceOf(t, protocolPages), sourceOf(t, "../loadtest/mix.go")
	unplayed, err := os.ReadFile("../loadtest/mix_test.go")
	redistest.OK(t, err)
	_, repeated, _ := strings.Cut(script, "const REPEATABLE = new Set([")
	repeated, _, _ = strings.Cut(repeated, "])")
	for _, a := range protocol.Actions {
		constant := "protocol.Action" + strings.ToUpper(a.Name[:1]) + a.Name[1:]
		for place, has := range map[string]bool{
			"its room.Action, or a row in internal/session": isMade(a.Name) || strings.Contains(server, "\t"+constant+":") || strings.Contains(server, "== "+constant+":"),
			"a row of plays in loadtest/mix.go":             strings.Contains(plays, constant+",") || strings.Contains(string(unplayed), constant+":"),
			"a method in transport/client":                  a.Name == protocol.ActionPing || strings.Contains(client, constant),
			"a request in transport/page/roomd.js":          strings.Contains(script, fmt.Sprintf("action: %q", a.Name)) || leftToSession(script, a.Name),
			"a method in transport/page/roomd.d.ts":         a.Name == protocol.ActionPing || a.Name == protocol.ActionAuth || regexp.MustCompile(`(?m)^  `+a.Name+`[(<]`).MatchString(types),
			"its shape of the reply in protocol/v1":         regexp.MustCompile("(?m)^\\| `" + a.Name + "` \\|.*\\| [^|]*" + string(a.Reply) + "[^|]*\\|$").MatchString(document),
			"in protocol/v1, that the host may do it":       regexp.MustCompile("(?m)^\\| `"+a.Name+"` \\|.*Only admins and the host may \\|").MatchString(document) == a.Host,
			"REPEATABLE of roomd.js, or is too much":        strings.Contains(repeated, fmt.Sprintf("%q", a.Name)) == a.Repeats,
		} {
			redistest.ErrorIf(t, !has, "%s: %s is missing", a.Name, place)
		}
		describedFields(t, a)
	}
}

// nobody is an actor without rights.
type nobody struct{}

func (nobody) User() string                  { return "" }
func (nobody) Session() string               { return "" }
func (nobody) Now() int64                    { return 0 }
func (nobody) Authority() bool               { return false }
func (nobody) Claim() room.Claim             { return room.Claim{} }
func (nobody) RequireAuthority(string) error { return nil }

// isMade reports whether the table makes the room.Action of an action.
func isMade(action string) bool {
	_, err := (&protocol.Request{Action: action, Settings: new(room.Settings)}).ActionBy(nobody{})
	unknown, is := errors.AsType[*protocol.Error](err)
	return !is || unknown.Code != protocol.CodeUnknownAction
}

// leftToSession reports whether roomd.js sends an action as that of a room which it leaves.
func leftToSession(script, action string) bool {
	return strings.Contains(script, fmt.Sprintf("%q", action))
}

// describedFields compares the fields of an action with its description.
func describedFields(t *testing.T, a protocol.Action) {
	t.Helper()
	d := described()
	if d.requests[a.Name] == nil {
		t.Errorf("%s: a message in asyncapi.yaml is missing", a.Name)
		return
	}
	required, optional := a.Fields()
	required = append(required, "id", "action")
	payload := d.at("components", "messages", a.Name, "payload")
	var needed []string
	for _, name := range payload["required"].([]any) {
		needed = append(needed, name.(string))
	}
	if slices.Sort(needed); !slices.Equal(needed, slices.Sorted(slices.Values(required))) {
		t.Errorf("%s: asyncapi.yaml requires %v, and the server %v", a.Name, needed, required)
	}
	properties := slices.Sorted(maps.Keys(d.at("components", "messages", a.Name, "payload", "properties")))
	if all := slices.Sorted(slices.Values(append(required, optional...))); !slices.Equal(properties, all) {
		t.Errorf("%s: asyncapi.yaml has the fields %v, and the server %v", a.Name, properties, all)
	}
}
