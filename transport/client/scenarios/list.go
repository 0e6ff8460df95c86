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

// verbs are those of a step, as the head of the list explains them.
var verbs = []string{
	"call", "gives", "accept", "refuse", ">", "<", "close", "cut", "closed", "hears", "silence", "flood",
	"read", "next", "end", "see", "state", "ended", "addresses",
}

// short has the steps that a word stands for.
var short = map[string][]string{
	"connected": {`call connect {"user":"ada"}`, `accept user=ada`, `gives ok`},
	"member": {
		`connected`,
		`call join 42`,
		`> {"action":"join","room":"42"}`,
		`< {"room":"42","epoch":"e","version":2,"seat":1,"count":2,"users":[{"user":"bob","seat":0},{"user":"ada","seat":1}]}`,
		`gives ok`,
	},
	"back": {`accept user=ada`, `> {"action":"join","room":"42","seat":1,"expect":2,"epoch":"e"}`},
}

// parse reads a list of scenarios.
func parse(text string) ([]scenario, error) {
	var all []scenario
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		name, heading := strings.CutPrefix(line, "== ")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case heading:
			all = append(all, scenario{name: name})
		case len(all) == 0:
			return nil, fmt.Errorf("line %d is in no scenario", number)
		default:
			last := &all[len(all)-1]
			steps, err := expand(line, number)
			if err != nil {
				return nil, err
			}
			last.steps = append(last.steps, steps...)
		}
	}
	return all, nil
}

// expand makes steps of a line.
func expand(line string, number int) ([]step, error) {
	if lines, ok := short[line]; ok {
		var steps []step
		for _, l := range lines {
			more, err := expand(l, number)
			if err != nil {
				return nil, err
			}
			steps = append(steps, more...)
		}
		return steps, nil
	}
	word, rest, _ := strings.Cut(line, " ")
	verb, label, _ := strings.Cut(word, ":")
	if !slices.Contains(verbs, verb) {
		return nil, fmt.Errorf("line %d: there is no %q", number, verb)
	}
	return []step{{number, verb, label, strings.TrimSpace(rest)}}, nil
}

// words splits the arguments of a command. One that begins as JSON goes to the end.
func words(text string) (args []string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if strings.ContainsRune(`{["`, rune(text[0])) {
			return append(args, text)
		}
		word, rest, _ := strings.Cut(text, " ")
		args, text = append(args, word), rest
	}
	return args
}
