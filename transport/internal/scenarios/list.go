package scenarios

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed list.txt
var list string

// scenario is one entry of the list.
type scenario struct {
	name  string
	steps []step
}

// step is one line of a scenario.
type step struct {
	line  int    // in the list
	verb  string // call, gives, accept, …
	label string // of call and gives
	text  string // the rest
}

// parse reads a list of scenarios, and of the words that stand for several steps.
func parse(text string) ([]scenario, error) {
	var all []scenario
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
			word, all = "", append(all, scenario{name: rest})
		case head == "::":
			word = rest
		case verbs[steps[0].verb] == nil:
			return nil, fmt.Errorf("line %d: there is no %q", number, verb)
		case word != "":
			words[word] = append(words[word], steps...)
		case len(all) == 0:
			return nil, fmt.Errorf("line %d is in no scenario", number)
		default:
			last := &all[len(all)-1]
			last.steps = append(last.steps, steps...)
		}
	}
	return all, nil
}

// split returns the arguments of a command. One that begins as JSON goes to the end.
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
