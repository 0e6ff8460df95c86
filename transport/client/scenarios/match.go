package scenarios

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
)

// same compares two answers, as JSON if both are.
func same(want, got string) bool {
	if want == got {
		return true
	}
	var w, g any
	if json.Unmarshal([]byte(want), &w) != nil || json.Unmarshal([]byte(got), &g) != nil {
		return false
	}
	return reflect.DeepEqual(w, g)
}

// shows says whether a view has the fields wanted; null stands for a field that is not there.
func shows(want, got string) bool {
	var w, g map[string]any
	if json.Unmarshal([]byte(want), &w) != nil || json.Unmarshal([]byte(got), &g) != nil {
		return false
	}
	for name, value := range w {
		have, ok := g[name]
		if ok != (value != nil) || !reflect.DeepEqual(have, value) {
			return false
		}
	}
	return true
}

// takeID returns a frame without its id, and the id.
func takeID(text []byte) (frame string, id any, err error) {
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", nil, fmt.Errorf("the client sent %q, which is no JSON object: %w", text, err)
	}
	id = fields["id"]
	delete(fields, "id")
	rest, err := json.Marshal(fields, json.Deterministic(true))
	return string(rest), id, err
}

// withID returns a reply with the id.
func withID(reply string, id any) (string, error) {
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(reply), &fields); err != nil {
		return "", err
	}
	all := map[string]any{"id": id}
	maps.Copy(all, fields)
	text, err := json.Marshal(all)
	return string(text), err
}

// option returns the value of NAME=VALUE among words.
func option(text, name string) (string, bool) {
	for _, word := range strings.Fields(text) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
