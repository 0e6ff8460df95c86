package scenarios

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// command is a row of the table of commands for a program under test.
type command struct {
	do     string
	fields string // in the order of a scenario's step; those in brackets may be missing
}

// commands is the table. In README.md it also has the answers.
var commands = []command{
	{"connect", "options"},
	{"join", "room [options]"}, {"watch", "room [options]"}, {"leave", "room"}, {"unwatch", "room"}, {"users", "room"},
	{"ready", "room value"}, {"set", "room data"}, {"setMember", "room data"}, {"setPrivate", "room data"},
	{"setPrivateOf", "room user data"}, {"update", "room by"}, {"say", "room text"}, {"sayTo", "room user text"},
	{"propose", "room data"}, {"timer", "room name in [then]"}, {"swap", "room user other"}, {"shuffle", "room"},
	{"match", "room options"}, {"txn", "room actions"},
	{"view", "room"}, {"iterate", "room name"}, {"next", "name"}, {"state", ""}, {"ended", "room"},
	{"lobby", "query"}, {"list", ""}, {"unlist", ""}, {"close", ""},
}

// names are the fields that are strings. A scenario has the others as JSON.
var names = []string{"room", "user", "other", "name"}

// request returns the line that asks a client of the program for a command.
func request(id int, client, do string, args ...string) ([]byte, error) {
	n := slices.IndexFunc(commands, func(c command) bool { return c.do == do })
	if n < 0 {
		return nil, fmt.Errorf("there is no command %s", do)
	}
	fields := strings.Fields(commands[n].fields)
	if len(args) > len(fields) || len(fields) > len(args) && fields[len(args)][0] != '[' {
		return nil, fmt.Errorf("the command %s has the fields %s, not %q", do, commands[n].fields, args)
	}
	line := fmt.Appendf(nil, `{"id":%d,"client":%q,"do":%q`, id, client, do)
	for i, arg := range args {
		name, value := strings.Trim(fields[i], "[]"), jsontext.Value(arg)
		if slices.Contains(names, name) {
			value, _ = json.Marshal(arg)
		}
		if !value.IsValid() {
			return nil, fmt.Errorf("the field %s of %s is no JSON: %s", name, do, arg)
		}
		line = fmt.Appendf(line, `,%q:%s`, name, value)
	}
	return append(line, "}\n"...), nil
}

// answer is a line of the program: the result of a command, nothing if it is only done, or the code of an error.
type answer struct {
	ID      *int           `json:"id"`
	Result  jsontext.Value `json:"result"`
	Error   string         `json:"error"`
	Message string         `json:"message"` // for people
}

// readAnswer reads a line of the program.
func readAnswer(line []byte) (id int, text string, err error) {
	var a answer
	if err := json.Unmarshal(line, &a); err != nil || a.ID == nil {
		return 0, "", fmt.Errorf("the program wrote %q, which is no answer", line)
	}
	return *a.ID, a.text(), nil
}

// text returns an answer as the scenarios have it: ok, error CODE, a word or JSON.
func (a answer) text() string {
	var word string
	switch {
	case a.Error != "":
		return strings.TrimSuffix(fmt.Sprintf("error %s: %s", a.Error, a.Message), ": ")
	case len(a.Result) == 0 || bytes.Equal(a.Result, []byte("null")):
		return "ok"
	case json.Unmarshal(a.Result, &word) == nil:
		return word
	}
	return string(a.Result)
}

// options are the options of the command connect, in JSON. Times are in milliseconds.
type options struct {
	// Addresses are where servers listen.
	Addresses []string `json:"addresses"`
	// User is the value of ?user=, empty if there are tokens.
	User string `json:"user,omitzero"`
	// Tokens are the results of the callback for tokens, one after the other; the last one again and again. None means
	// that there is no callback.
	Tokens []string `json:"tokens,omitzero"`
	// Base and Cap are the first and the largest bound of a pause between attempts.
	Base int `json:"base"`
	Cap  int `json:"cap"`
	// Idle is the silence after which the client pings, and Silence how long it then waits for an answer.
	Idle    int `json:"idle"`
	Silence int `json:"silence"`
	// Wait is how long a request waits for a connection. After that it fails with the code timeout.
	Wait int `json:"wait"`
}

// quick are the options of a scenario that says nothing else.
var quick = options{Base: 5, Cap: 50, Idle: 10_000, Silence: 5_000, Wait: 10_000}

// withDefaults returns the complete options of a connect. A token "expires in N s" becomes a JWT with that exp.
func withDefaults(text string, addresses []string) (string, error) {
	options := quick
	options.Addresses = addresses
	if err := json.Unmarshal([]byte(text), &options); err != nil {
		return "", err
	}
	for i, token := range options.Tokens {
		var seconds int
		if n, _ := fmt.Sscanf(token, "expires in %d s", &seconds); n == 1 {
			exp := fmt.Appendf(nil, `{"sub":"ada","exp":%d}`, clock().Unix()+int64(seconds))
			// a client reads only exp
			options.Tokens[i] = "e30." + base64.RawURLEncoding.EncodeToString(exp) + ".c2lnbmF0dXJl"
		}
	}
	out, err := json.Marshal(options)
	return string(out), err
}
