package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oasdiff/yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// description is asyncapi.yaml, with what the server sends as strict as what it takes: there a client
// ignores what it does not know, and the tests do not.
type description struct {
	content  map[string]any
	requests map[string]*jsonschema.Schema // by name
	frames   map[string]*jsonschema.Schema // that the server sends, by name

	mu   sync.Mutex
	seen map[string]bool // guarded by mu: the frames that came
}

var described = sync.OnceValue(func() *description {
	source, err := os.ReadFile("asyncapi.yaml")
	if err != nil {
		panic(err)
	}
	source, err = yaml.YAMLToJSON(source)
	if err != nil {
		panic(err)
	}
	loaded, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		panic(err)
	}
	d := &description{
		content: loaded.(map[string]any), seen: map[string]bool{},
		requests: map[string]*jsonschema.Schema{}, frames: map[string]*jsonschema.Schema{},
	}
	sealSchema(d.content["components"])
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	if err := compiler.AddResource("asyncapi.json", d.content); err != nil {
		panic(err)
	}
	for name, message := range d.at("components", "messages") {
		schema := compiler.MustCompile("asyncapi.json#/components/messages/" + name + "/payload")
		if _, isRequest := message.(map[string]any)["payload"].(map[string]any)["properties"].(map[string]any)["action"]; isRequest {
			d.requests[name] = schema
		} else {
			d.frames[name] = schema
		}
	}
	return d
})

func sealSchema(at any) {
	switch at := at.(type) {
	case map[string]any:
		if _, open := at["additionalProperties"]; !open && at["properties"] != nil {
			at["additionalProperties"] = false
		}
		for _, below := range at {
			sealSchema(below)
		}
	case []any:
		for _, below := range at {
			sealSchema(below)
		}
	}
}

func (d *description) at(path ...string) map[string]any {
	found := d.content
	for _, name := range path {
		found = found[name].(map[string]any)
	}
	return found
}

// match returns which of the messages a frame is.
func match(messages map[string]*jsonschema.Schema, frame string) (names []string, err error) {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(frame))
	if err != nil {
		return nil, err
	}
	for name, schema := range messages {
		if schema.Validate(value) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// checkDescribed fails the test unless a frame of the server is exactly one of those that
// asyncapi.yaml describes.
func checkDescribed(t testing.TB, frame []byte) {
	d := described()
	names, err := match(d.frames, string(frame))
	if err != nil || len(names) != 1 {
		t.Errorf("asyncapi.yaml describes this frame as %q, %v:\n%s", names, err, frame)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[names[0]] = true
}

// A request is described exactly if the server takes it: each action with its fields, one or two of
// which are missing, foreign or of the wrong kind.
func TestDescription_Requests(t *testing.T) {
	d := described()
	values := map[string]string{
		"room": `"42"`, "seat": `2`, "history": `7`, "token": `"x"`, "value": `true`, "user": `"a"`, "scope": `"private"`, "settings": `{"capacity":4}`,
		"text": `"hi"`, "data": `{"x":[1]}`, "to": `["a","b"]`, "ban": `60`, "expect": `7`, "epoch": `"e"`, "users": `["a","b"]`, "name": `"turn"`, "in": `5`, "then": `{"kick":"a"}`, "nonsense": `1`,
		"labels": `{"mode":"ranked"}`, "key": `"k"`, "actions": `[{"action":"close"}]`,
	}
	wrong := map[string]string{
		"seat": `-1`, "history": `101`, "value": `1`, "scope": `"all"`, "settings": `{"capacities":4}`, "text": `7`, "to": `["a","a"]`, "actions": `[{"action":"join"}]`, "ban": `0`, "expect": `-1`, "users": `["a"]`, "name": `7`, "in": `null`, "then": `{"close":true,"kick":"a"}`, "room": `42`, "labels": `{"mode":1}`, "key": `1`,
	}
	names := []string{""} // none
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	tried, taken := 0, map[string]int{}
	for action := range d.requests {
		needs := d.at("components", "messages", action, "payload")["required"].([]any)
		for i, first := range names {
			for _, second := range names[i:] {
				for _, bad := range []bool{false, true} {
					has := map[string]bool{}
					for _, name := range needs {
						has[name.(string)] = true
					}
					has[first] = !has[first]
					if second != first {
						has[second] = !has[second]
					}
					frame := fmt.Sprintf(`{"id":1,"action":%q`, action)
					for _, name := range names {
						switch {
						case !has[name] || name == "":
						case bad && name == first && wrong[name] != "":
							frame += fmt.Sprintf(`,%q:%s`, name, wrong[name])
						default:
							frame += fmt.Sprintf(`,%q:%s`, name, values[name])
						}
					}
					frame += "}"
					_, refused := protocol.DecodeRequest([]byte(frame))
					found, err := match(d.requests, frame)
					redistest.FatalIf(t, err != nil || (refused == nil) != slices.Equal(found, []string{action}) || refused != nil && len(found) > 0,
						"%s\nthe server: %v\nasyncapi.yaml: %q, %v", frame, refused, found, err)
					tried++
					if refused == nil {
						taken[action]++
					}
				}
			}
		}
	}
	redistest.ErrorIf(t, tried < 1000 || len(taken) != len(d.requests),
		"%d requests were tried; of these kinds some were taken: %v", tried, taken)
}

// What a request can be refused with, and what can happen in a room, is described, and each message
// belongs to an operation.
func TestDescription_IsWhole(t *testing.T) {
	d := described()
	n := len(protocol.Actions)
	redistest.ErrorIf(t, n != len(d.requests), "%d requests are described, for %d actions", len(d.requests), n)
	for _, part := range []struct {
		at    []string
		words []string
	}{
		{[]string{"schemas", "error"}, protocol.Codes()},
		{[]string{"schemas", "change"}, slices.Concat(protocol.Changes(), protocol.Reasons())},
		{[]string{"messages"}, protocol.Events()},
	} {
		source, _ := json.Marshal(d.at(append([]string{"components"}, part.at...)...))
		for _, word := range part.words {
			redistest.ErrorIf(t, !strings.Contains(string(source), fmt.Sprintf("%q", word)),
				"%v: %q is not described", part.at, word)
		}
	}
	operations, _ := json.Marshal(d.content["operations"])
	for name := range d.at("components", "messages") {
		redistest.ErrorIf(t, !strings.Contains(string(operations), fmt.Sprintf("#/channels/session/messages/%s\"", name)),
			"no operation has the message %s", name)
		redistest.ErrorIf(t, d.at("channels", "session", "messages")[name] == nil,
			"the channel has no message %s", name)
	}
	for name := range d.at("channels", "session", "messages") {
		redistest.ErrorIf(t, d.at("components", "messages")[name] == nil, "the message %s is nowhere", name)
	}
}

// asyncapi.yaml is an AsyncAPI document, as far as the specification's own schema can tell.
func TestDescription_IsAsyncAPI(t *testing.T) {
	schema, err := os.ReadFile("page/testdata/node_modules/@asyncapi/specs/schemas/3.0.0-without-$id.json")
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal(err)
	case err != nil:
		t.Skip("the schema is missing; run: npm ci --prefix transport/page/testdata")
	}
	loaded, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	redistest.OK(t, err)
	compiler := jsonschema.NewCompiler()
	redistest.OK(t, compiler.AddResource("asyncapi.json", loaded))
	redistest.OK(t, compiler.MustCompile("asyncapi.json").Validate(described().content))
}

// The documents have each setting, with its range or its choices.
func TestDescription_Settings(t *testing.T) {
	d := described()
	types, err := os.ReadFile("page/roomd.d.ts")
	redistest.OK(t, err)
	_, inTypes, _ := strings.Cut(string(types), "export interface Settings {")
	inTypes, _, _ = strings.Cut(inTypes, "\n}")
	_, table, _ := strings.Cut(sourceOf(t, protocolPages), "\n| setting |")
	table, _, _ = strings.Cut(table, "\n\n")
	for name, properties := range map[string]map[string]any{
		"what the server sends": d.at("components", "schemas", "settings", "properties"),
		"what a client asks":    d.at("components", "schemas", "newSettings", "properties"),
	} {
		redistest.ErrorIf(t, len(properties) != len(room.SettingFields),
			"%s has the settings %v", name, slices.Collect(maps.Keys(properties)))
		for _, f := range room.SettingFields {
			described, _ := json.Marshal(properties[f.Name])
			if name := f.Name; strings.Contains(string(described), "$ref") {
				described, _ = json.Marshal(d.at("components", "schemas", name))
			}
			want := `"type":"boolean"`
			switch _, labels := f.In(new(room.Settings)).(*room.Labels); {
			case labels:
				want = fmt.Sprintf(`"maxProperties":%d,`, room.MaxLabels)
			case f.Values != nil:
				choices, _ := json.Marshal(f.Values)
				want = `"enum":` + string(choices)
			case f.Most > 0:
				want = fmt.Sprintf(`"maximum":%d,`, f.Most)
			}
			redistest.ErrorIf(t, !strings.Contains(string(described), want),
				"%s: %s is %s, want %s", name, f.Name, described, want)
		}
	}
	for _, f := range room.SettingFields {
		redistest.ErrorIf(t, !strings.Contains(table, "\n| `"+f.Name+"` |"), "PROTOCOL.md has no setting %s", f.Name)
		_, is, found := strings.Cut(inTypes+"\n", "\n  readonly "+f.Name+"?: ")
		is, _, _ = strings.Cut(is, "\n")
		redistest.ErrorIf(t, !found || f.Values != nil && is != `"`+strings.Join(f.Values, `" | "`)+`"`,
			"roomd.d.ts has no setting %s, or with other choices", f.Name)
		for _, choice := range f.Values {
			redistest.ErrorIf(t, !strings.Contains(table, "`\""+choice+"\"`"),
				"PROTOCOL.md has no choice %s of %s", choice, f.Name)
		}
	}
}

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
