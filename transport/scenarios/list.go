package scenarios

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// step is one line of a scenario.
type step struct {
	line  int    // in the list
	verb  string // call, gives, accept, …
	label string // of call and gives
	text  string // the rest
}

// parse reads a list of scenarios, and of the words that stand for several steps.
func parse(file, text string) ([]Scenario, error) {
	var all []Scenario
	words := map[string][]step{}
	word, number := "", 0 // the word that is being defined
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		head, rest, _ := strings.Cut(line, " ")
		verb, label, _ := strings.Cut(head, ":")
		steps := []step{{number, verb, label, strings.TrimSpace(rest)}}
		if known, ok := words[line]; ok {
			steps = slices.Clone(known)
			for i := range steps {
				steps[i].line = number
			}
		}
		switch {
		case line == "" || head == "#":
		case head == "==":
			word, all = "", append(all, Scenario{Name: rest, file: file})
		case head == "::":
			word = rest
		case verbs[steps[0].verb].play == nil:
			return nil, fmt.Errorf("%s:%d: there is no %q", file, number, verb)
		case word != "":
			words[word] = append(words[word], steps...)
		case len(all) == 0:
			return nil, fmt.Errorf("%s:%d is in no scenario", file, number)
		default:
			last := &all[len(all)-1]
			last.steps = append(last.steps, steps...)
		}
	}
	return all, nil
}

// split returns the arguments of a command. One that begins as JSON extends to the end of the text.
func split(text string) (args []string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if strings.ContainsRune(`{["`, rune(text[0])) {
			return append(args, text)
		}
		word, rest, _ := strings.Cut(text, " ")
		args, text = append(args, word), rest
	}
	return args
}

// differs returns err or, if that is nil and the answer got is not the one wanted, an error.
func differs(want, got string, err error) error {
	if err == nil && !same(want, got) {
		err = fmt.Errorf("got %s", got)
	}
	return err
}

// same reports whether two answers are equal, as JSON if both are JSON. The message of an error does not count.
func same(want, got string) bool {
	w, g := decode(want), decode(got)
	failed := strings.HasPrefix(want, "error ") && strings.HasPrefix(got, want+": ")
	return want == got || failed || w != nil && reflect.DeepEqual(w, g)
}

// shows reports whether the view got has the fields of want; null there stands for no field.
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
		err = context.Cause(ctx)
	}
	return value, err
}
