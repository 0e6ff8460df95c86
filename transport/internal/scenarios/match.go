package scenarios

import (
	"context"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// differs returns an error unless an answer is the one wanted, and err is nil.
func differs(want, got string, err error) error {
	if err == nil && !same(want, got) {
		err = fmt.Errorf("got %s", got)
	}
	return err
}

// same compares two answers, as JSON if both are.
func same(want, got string) bool {
	w, g := decode(want), decode(got)
	return want == got || w != nil && reflect.DeepEqual(w, g)
}

// shows says whether a view has the fields wanted; null stands for a field that is not there.
func shows(want, got string) bool {
	w, _ := decode(want).(map[string]any)
	g, ok := decode(got).(map[string]any)
	for name, value := range w {
		ok = ok && reflect.DeepEqual(g[name], value) // a view has no null
	}
	return ok
}

// decode returns the value of a JSON text, or nil.
func decode(text string) (value any) {
	if json.Unmarshal([]byte(text), &value) != nil {
		return nil
	}
	return value
}

// takeID returns a frame without its id, and the id.
func takeID(frame []byte) (rest, id string, err error) {
	fields := map[string]jsontext.Value{}
	if err := json.Unmarshal(frame, &fields); err != nil {
		return "", "", fmt.Errorf("the client sent %q, which is no JSON object: %w", frame, err)
	}
	id = string(fields["id"])
	delete(fields, "id")
	text, err := json.Marshal(fields, json.Deterministic(true))
	return string(text), id, err
}

func receive[T any](ctx context.Context, from <-chan T) (value T, err error) {
	select {
	case value = <-from:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return value, err
}
